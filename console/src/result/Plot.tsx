// A plot in a page: drawn again when its data, its width or the colours of the system change, with a line that says what
// is under the pointer.
import { useEffect, useRef, useState } from "preact/hooks";
import { withPart } from "../ui/part";
import { styled } from "../ui/parts";
import { count, inUtc, time } from "./format";
import type { PlotOptions } from "./plot";

export default function Plot({ options, label }: { options: PlotOptions; label: string }) {
  const element = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const { times, series } = options;
  useEffect(() => {
    let alive = true;
    let drawn: { destroy: () => void } | null = null;
    const draw = (): void =>
      withPart(import("./plot"), ({ plot }) => {
        if (!alive || !element.current) return;
        drawn?.destroy();
        const found = plot(element.current, options);
        found.over.addEventListener("pointermove", () => setAt(found.cursor.idx ?? null));
        found.over.addEventListener("pointerleave", () => setAt(null));
        drawn = found;
      });
    draw();
    let width = element.current?.clientWidth;
    const observer = new ResizeObserver(() => {
      if (element.current && element.current.clientWidth !== width) {
        width = element.current.clientWidth;
        draw();
      }
    });
    if (element.current) observer.observe(element.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      alive = false;
      drawn?.destroy();
      observer.disconnect();
      scheme.removeEventListener("change", draw);
    };
  }, [options, inUtc.value]);
  const format = options.format ?? count;
  return (
    <figure class="plot" aria-label={label}>
      <div ref={(host) => { element.current = host; styled({ height: `${options.height}px` })(host); }} />
      <figcaption>
        {at !== null && times[at] !== undefined && <span class="plot-time">{time(times[at] as number)}</span>}
        {series.slice(0, 12).map((one, place) => (
          <span key={place} class="legend">
            <i ref={styled({ background: `var(${one.variable})` })} />
            {one.name}
            {at !== null && <b>{format(one.values[at] ?? 0)}</b>}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}
