// How many rows a query matches over time: the statements that count, and their answer as bars.
import { type Parameters, run } from "../result/run";
import type { Field, Value } from "../result/types";
import { sqlPath } from "../result/path";
import { severityPath, typeAt } from "../result/severity";
import { identifier, rows } from "../sqlText";

export interface Range {
  /** In milliseconds since 1970; the end does not belong to it. */
  start: number;
  end: number;
}

export interface Histogram {
  range: Range;
  /** The width of a bar in milliseconds. */
  width: number;
  /** The starts of the bars. */
  times: number[];
  /** The counts of each series, by bar. Without a severity there is one series, of the empty name. */
  series: { name: string; counts: number[] }[];
  total: number;
}

const WIDTHS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000].map((seconds) => seconds * 1000);
/** About how many bars there are. */
const BARS = 80;

export function widthOf({ start, end }: Range): number {
  return WIDTHS.find((width) => (end - start) / width <= BARS) ?? (WIDTHS.at(-1) as number);
}

export interface Asked {
  endpoint: string;
  parameters: Parameters;
  mode: "sql" | "lql";
  text: string;
  range: Range | null;
  /** The columns of the granted table that the statement reads; none where it reads several or is not SQL. */
  columns: Field[];
}

/** Counts the rows that a query matches. Null where that cannot be counted. */
export async function histogram(asked: Asked, signal: AbortSignal): Promise<Histogram | null> {
  return asked.mode === "sql" ? ofSql(asked, signal) : ofLql(asked, signal);
}

/** The severity of a row as SQL text, and the name of its field; a status of HTTP by its hundreds. Null where there is none. */
function severitySql(columns: Field[]): { sql: string; name: string } | null {
  const path = severityPath(columns);
  const type = path && typeAt(columns.find((column) => column.name === path.column)?.type ?? { kind: "text", name: "" }, path.steps);
  if (!path || !type) return null;
  const last = path.steps.at(-1);
  const sql = type.kind === "number" ? `CONCAT(CAST(DIV(${sqlPath(path)}, 100) AS STRING), 'xx')` : sqlPath(path);
  return { sql, name: last && "field" in last ? last.field : path.column };
}

/** A statement that counts the rows of this one over time, by severity where they have one. Null where it has no rows of a table. */
export function overTime({ mode, text, range, columns }: Pick<Asked, "mode" | "text" | "range" | "columns">): string | null {
  const span = range ? range.end - range.start : Infinity;
  const unit = span <= 10_800_000 ? "minute" : span <= 1_209_600_000 ? "hour" : "day";
  if (mode === "lql") return `${filtersOf(text)} c:count(*) c:group_by(t::${unit})`.trim();
  const found = rows(text);
  if (!found) return null;
  const { head, from, where } = found;
  const level = severitySql(columns);
  const by = level ? `,\n  ${level.sql} AS ${identifier(level.name)}` : "";
  const group = level ? `${unit}, ${identifier(level.name)}` : unit;
  return `${head}SELECT\n  TIMESTAMP_TRUNC(timestamp, ${unit.toUpperCase()}) AS ${unit}${by},\n  COUNT(*) AS total\nFROM ${from}${where ? `\nWHERE ${where}` : ""}\nGROUP BY ${group}\nORDER BY ${unit}`;
}

/** What a query in LQL filters by, without what it selects and draws. */
function filtersOf(text: string): string {
  const clauses = text.match(/(?:"(?:\\.|[^"\\])*"|\([^)]*\)|\S)+/g) ?? [];
  return clauses.filter((clause) => !/^(s|select|c|chart):/.test(clause)).join(" ");
}

async function ofSql({ endpoint, parameters, text, range, columns }: Asked, signal: AbortSignal): Promise<Histogram | null> {
  const found = rows(text);
  if (!found) return null;
  const { head, from, where } = found;
  const source = `FROM ${from}${where ? `\nWHERE ${where}` : ""}`;
  let bounds = range;
  if (!bounds) {
    const extent = await run(endpoint, { ...parameters, sql: `${head}SELECT MIN(timestamp) AS a, MAX(timestamp) AS b ${source}` }, signal);
    const [first, last] = [extent.rows ? extent.cell(0, 0) : null, extent.rows ? extent.cell(0, 1) : null];
    if (typeof first !== "number" || typeof last !== "number") return null;
    bounds = { start: first, end: last + 1 };
  }
  const width = widthOf(bounds);
  const seconds = width / 1000;
  const level = severitySql(columns)?.sql ?? "''";
  const by = (series: string) => `${head}SELECT TIMESTAMP_SECONDS(DIV(UNIX_SECONDS(timestamp), ${seconds}) * ${seconds}) AS t, ${series} AS k, COUNT(*) AS n\n${source}\nGROUP BY t, k`;
  let answer = await run(endpoint, { ...parameters, sql: by(level) }, signal);
  // Counts that are cut off would be wrong: then one series, and none if even that has more rows than the endpoint gives.
  if (answer.truncated && level !== "''") answer = await run(endpoint, { ...parameters, sql: by("''") }, signal);
  if (answer.truncated) return null;
  return bars(bounds, width, rowsOf(answer.rows, (row) => [answer.cell(row, 0), answer.cell(row, 1), answer.cell(row, 2)]));
}

async function ofLql({ endpoint, parameters, text, range }: Asked, signal: AbortSignal): Promise<Histogram | null> {
  const span = range ? range.end - range.start : Infinity;
  const unit = span <= 180_000 ? "second" : span <= 10_800_000 ? "minute" : span <= 1_209_600_000 ? "hour" : "day";
  const width = { second: 1000, minute: 60_000, hour: 3_600_000, day: 86_400_000 }[unit];
  const answer = await run(endpoint, { ...parameters, lql: `${filtersOf(text)} c:count(*) c:group_by(t::${unit})`.trim() }, signal);
  if (answer.truncated) return null;
  const rows = rowsOf(answer.rows, (row) => [answer.cell(row, 0), null, answer.cell(row, 1)]);
  const times = rows.map(([time]) => time as number);
  const bounds = range ?? (times.length > 0 ? { start: Math.min(...times), end: Math.max(...times) + width } : null);
  return bounds && bars(bounds, width, rows);
}

type Row = [Value, Value, Value];
const rowsOf = (count: number, row: (at: number) => Row): Row[] => Array.from({ length: count }, (_, at) => row(at));

export function bars(range: Range, width: number, rows: Row[]): Histogram {
  const first = Math.floor(range.start / width) * width;
  const times: number[] = [];
  for (let at = first; at < range.end && times.length < 2000; at += width) times.push(at);
  const series = new Map<string, number[]>();
  let total = 0;
  for (const [time, name, count] of rows) {
    const at = Math.round(((time as number) - first) / width);
    if (at < 0 || at >= times.length) continue;
    const key = String(name ?? "");
    const counts = series.get(key) ?? series.set(key, new Array<number>(times.length).fill(0)).get(key);
    (counts as number[])[at] = ((counts as number[])[at] ?? 0) + Number(count);
    total += Number(count);
  }
  // Whole bars are shown, also the one that now lies in.
  const shown = { start: Math.min(range.start, first), end: Math.max(range.end, (times.at(-1) ?? first) + width) };
  return { range: shown, width, times, total, series: [...series].map(([name, counts]) => ({ name, counts })) };
}
