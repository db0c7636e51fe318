// Reads the text of /metrics.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = /^([a-z_][\w]*)(?:\{(.*)\})? (\S+)/i.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:\\.|[^"\\])*)"/g)].map((label) => [label[1] ?? "", label[2] ?? ""]));
    samples.push({ name: match[1] ?? "", labels, value: Number(match[3]) });
  }
  return samples;
}

/** The sum of a metric over all labels that fit. */
export function sum(samples: Sample[], name: string, fits: (labels: Record<string, string>) => boolean = () => true): number {
  return samples.reduce((total, sample) => (sample.name === name && fits(sample.labels) ? total + sample.value : total), 0);
}

/** The time in milliseconds under which a share of the requests between two readings of a histogram was answered. Null
 * where there was none. */
export function quantile(share: number, before: Sample[], after: Sample[], name: string, fits: (labels: Record<string, string>) => boolean): number | null {
  const counts = (samples: Sample[]): Map<number, number> => {
    const found = new Map<number, number>();
    for (const sample of samples) {
      if (sample.name !== `${name}_bucket` || !fits(sample.labels)) continue;
      const bound = sample.labels.le === "+Inf" ? Infinity : Number(sample.labels.le);
      found.set(bound, (found.get(bound) ?? 0) + sample.value);
    }
    return found;
  };
  const old = counts(before);
  const buckets = [...counts(after)].map(([bound, value]) => ({ bound, value: value - (old.get(bound) ?? 0) })).sort((a, b) => a.bound - b.bound);
  const total = buckets.at(-1)?.value ?? 0;
  if (total <= 0) return null;
  const wanted = share * total;
  let [low, below] = [0, 0];
  for (const { bound, value } of buckets) {
    if (value >= wanted) return 1000 * (bound === Infinity ? low : low + ((bound - low) * (wanted - below)) / Math.max(1, value - below));
    [low, below] = [bound, value];
  }
  return 1000 * low;
}
