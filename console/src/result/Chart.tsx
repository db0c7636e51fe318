// A chart of any result: lines or bars where it has times, bars where it has categories.
import { useMemo, useState } from "preact/hooks";
import { T } from "../text";
import { Empty, styled } from "../ui/parts";
import { variablesOf } from "./colours";
import { count, text } from "./format";
import Plot from "./Plot";
import type { Series } from "./plot";
import type { Result } from "./types";

type Kind = "line" | "bars" | "stacked";
/** The most series and categories that are drawn. */
const MOST = 12;
const MOST_CATEGORIES = 40;
/** The most characters of the name of one. */
const MOST_CHARACTERS = 200;

interface Prepared {
  times: number[];
  series: Series[];
  width?: number;
  /** More series than are drawn. */
  left: number;
}

const isTime = (kind: string): boolean => kind === "timestamp" || kind === "datetime" || kind === "date";

/** The columns of a result by what a chart makes of them. */
function roles(result: Result) {
  const at = (test: (kind: string) => boolean): number[] => result.columns.flatMap((column, index) => (test(column.type.kind) ? [index] : []));
  return { time: at(isTime)[0], numbers: at((kind) => kind === "number"), categories: at((kind) => kind === "text" || kind === "boolean") };
}

export function canChart(result: Result): boolean {
  const { time, numbers, categories } = roles(result);
  return result.rows > 0 && numbers.length > 0 && (time !== undefined || categories.length > 0 || numbers.length > 1);
}

function overTime(result: Result): Prepared | null {
  const { time, numbers, categories } = roles(result);
  if (time === undefined || numbers.length === 0) return null;
  const category = categories[0];
  const byName = new Map<string, Map<number, number>>();
  const totals = new Map<string, number>();
  const seen = new Set<number>();
  for (let row = 0; row < result.rows; row += 1) {
    const at = result.cell(row, time);
    if (typeof at !== "number") continue;
    seen.add(at);
    for (const number of category === undefined ? numbers : numbers.slice(0, 1)) {
      const column = result.columns[number];
      const name = category === undefined ? (column?.name ?? "") : String(result.cell(row, category) ?? "NULL");
      const value = Number(result.cell(row, number) ?? Number.NaN);
      if (Number.isNaN(value)) continue;
      const points = byName.get(name) ?? new Map<number, number>();
      byName.set(name, points.set(at, (points.get(at) ?? 0) + value));
      totals.set(name, (totals.get(name) ?? 0) + value);
    }
  }
  const times = [...seen].sort((a, b) => a - b);
  const names = [...byName.keys()].sort((a, b) => (totals.get(b) ?? 0) - (totals.get(a) ?? 0));
  const drawn = names.slice(0, MOST);
  const variables = variablesOf(drawn);
  const steps = times.slice(1).map((one, index) => one - (times[index] as number));
  const width = steps.length > 0 ? Math.min(...steps) : undefined;
  return { times, width, left: names.length - drawn.length, series: drawn.map((name, at) => ({ name: name.length > MOST_CHARACTERS ? `${name.slice(0, MOST_CHARACTERS)}…` : name, variable: variables[at] as string, values: times.map((one) => byName.get(name)?.get(one) ?? null) })) };
}

/** A chart of a result. `onCount` asks for one that has a chart, where this one has none. */
export function Chart({ result, onCount }: { result: Result; onCount?: () => void }) {
  const [kind, setKind] = useState<Kind>("bars");
  const prepared = useMemo(() => overTime(result), [result]);
  const options = useMemo(() => prepared && { times: prepared.times, series: prepared.series, width: prepared.width, kind: kind === "bars" && prepared.series.length > 1 ? ("stacked" as const) : kind, height: 300 }, [prepared, kind]);
  if (!canChart(result)) return (
    <Empty title={T.chart.none}>
      <p>{T.chart.noneHint}</p>
      {onCount && <button type="button" class="primary" onClick={onCount}>{T.chart.count}</button>}
    </Empty>
  );
  if (!options || !prepared) return <Categories result={result} />;
  return (
    <div class="chart">
      <div class="segmented" role="group" aria-label={T.chart.kind}>
        {(["bars", "line"] as const).map((one) => (
          <button key={one} type="button" aria-pressed={kind === one} onClick={() => setKind(one)}>
            {T.chart.kinds[one]}
          </button>
        ))}
      </div>
      <Plot options={options} label={T.chart.overTime} />
      {prepared.left > 0 && <p class="hint">{T.chart.left(prepared.left)}</p>}
    </div>
  );
}

function Categories({ result }: { result: Result }) {
  const { numbers, categories } = roles(result);
  // Without a text, the first number names the rows: a status, say.
  const name = categories[0] ?? (numbers[0] as number);
  const number = numbers.find((one) => one !== name) as number;
  const rows = Array.from({ length: Math.min(result.rows, MOST_CATEGORIES) }, (_, row) => {
    const column = result.columns[name];
    return { name: column ? text(result.cell(row, name), column.type, MOST_CHARACTERS) || "NULL" : "", value: Number(result.cell(row, number) ?? 0) };
  });
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), Number.MIN_VALUE);
  const variables = variablesOf(rows.map((row) => row.name));
  return (
    <div class="chart">
      <table class="bars">
        <caption>{T.chart.of(result.columns[number]?.name ?? "", result.columns[name]?.name ?? "")}</caption>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              <th scope="row" title={row.name}>{row.name}</th>
              <td>
                <i ref={styled({ width: `${(100 * Math.abs(row.value)) / most}%`, background: `var(${variables[at]?.startsWith("--s") ? "--accent" : variables[at]})` })} />
              </td>
              <td class="number">{count(row.value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {result.rows > MOST_CATEGORIES && <p class="hint">{T.chart.left(result.rows - MOST_CATEGORIES)}</p>}
    </div>
  );
}
