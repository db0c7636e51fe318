// The state of the page Explore: what is asked, what came of it. The address behind the # has all that is asked, so that a
// link shows the same to whoever has a token.
import { computed, signal } from "@preact/signals";
import { Failure, isAbort, messageOf } from "../api/client";
import { type EndpointInfo, endpoints, timeBounds } from "../api/document";
import type { Mistake } from "../editor/Editor";
import { mistakesOf } from "../editor/mistakes";
import { type Histogram, histogram } from "../query/histogram";
import { identifier, withCondition } from "../query/sqlText";
import { absolute, boundsOf, type RangeText } from "../query/timeRange";
import { type Parameters, run } from "../result/run";
import type { Field, Result } from "../result/types";
import { address, rewrite } from "../route";
import { remember } from "./history";

export type Mode = "sql" | "lql" | "saved";
export type View = "table" | "chart" | "json";

export const endpointName = signal("");
export const parameters = signal<Parameters>({});
export const mode = signal<Mode>("sql");
export const text = signal("");
export const range = signal<RangeText>("24h");
export const view = signal<View>("table");

export const running = signal(false);
export const result = signal<Result | null>(null);
export const failure = signal<string | null>(null);
export const mistakes = signal<Mistake[]>([]);
export const bars = signal<Histogram | null>(null);
/** The row that is shown whole, by its place. */
export const chosenRow = signal<number | null>(null);
/** The columns of granted tables, of those that are known. */
export const tables = signal<ReadonlyMap<string, Field[]>>(new Map());

export const endpoint = computed<EndpointInfo | undefined>(() => endpoints.value?.find((one) => one.name === endpointName.value));
export const bounds = computed(() => timeBounds(endpoint.value));
/** The parameters that have no value and need one. */
export const missing = computed(() => endpoint.value?.parameters.filter((one) => one.required && !one.pinned && !parameters.value[one.name]).map((one) => one.name) ?? []);

let controller: AbortController | null = null;

/** The parameters of a request, the time range among them. */
export function asked(now = Date.now()): Parameters {
  const own = Object.fromEntries((endpoint.value?.parameters ?? []).filter((one) => !one.pinned).map((one) => [one.name, parameters.value[one.name] ?? ""]));
  const times = bounds.value;
  const found = boundsOf(range.value, now);
  if (times && found) {
    own[times.start] = new Date(found.start).toISOString();
    // A range until now has no end: what comes while the query runs belongs to it.
    if (range.value.includes("/")) own[times.end] = new Date(found.end).toISOString();
  }
  return own;
}

export function withText(own: Parameters): Parameters {
  return mode.value === "saved" ? own : { ...own, [mode.value]: text.value };
}

function query(): Record<string, string> {
  const fields: Record<string, string> = { endpoint: endpointName.value, mode: mode.value, range: range.value, view: view.value };
  if (mode.value !== "saved") fields.q = text.value;
  for (const [name, value] of Object.entries(parameters.value)) if (value) fields[`p.${name}`] = value;
  return fields;
}

/** The address of the view without a token. */
export const link = (): string => `${location.origin}${location.pathname}${address(["explore"], query())}`;
export const keepAddress = (asStep = false): void => rewrite(["explore"], query(), asStep);

/** Takes what an address asks for. Returns whether it asks for anything. */
export function take(from: URLSearchParams): boolean {
  const name = from.get("endpoint");
  if (name === null) return false;
  endpointName.value = name;
  parameters.value = Object.fromEntries([...from].filter(([key]) => key.startsWith("p.")).map(([key, value]) => [key.slice(2), value]));
  const wanted = from.get("mode");
  mode.value = wanted === "lql" || wanted === "saved" ? wanted : "sql";
  range.value = from.get("range") ?? "24h";
  const shown = from.get("view");
  view.value = shown === "chart" || shown === "json" ? shown : "table";
  text.value = from.get("q") ?? "";
  return true;
}

/** The statement that a table begins with. */
export function firstQuery(table: string, columns: Field[] | undefined): string {
  const known = new Set(columns?.map((column) => column.name));
  const names = ["timestamp", "event_message", "metadata"].filter((name) => known.has(name));
  const list = names.length > 1 ? names.map(identifier).join(", ") : "*";
  return `SELECT ${list}\nFROM ${identifier(table)}${known.size === 0 || known.has("timestamp") ? "\nORDER BY timestamp DESC" : ""}\nLIMIT 500`;
}

/** Runs what is asked, in place of what runs. As a step, the browser's button goes back to what ran before. */
export async function start(asStep = true): Promise<void> {
  if (missing.value.length > 0 || !endpoint.value) return;
  controller?.abort();
  const own = new AbortController();
  controller = own;
  running.value = true;
  failure.value = null;
  mistakes.value = [];
  keepAddress(asStep && result.value !== null);
  const now = Date.now();
  const base = asked(now);
  const bound = bounds.value ? boundsOf(range.value, now) : null;
  const counting = mode.value;
  try {
    const found = await run(endpointName.value, withText(base), own.signal);
    if (controller !== own) return;
    result.value = found;
    chosenRow.value = null;
    remember({ endpoint: endpointName.value, mode: mode.value, text: text.value, address: address(["explore"], query()) });
    // Counted after the rows are there: a query that is refused is not refused twice.
    const about = { endpoint: endpointName.value, parameters: base, text: text.value, range: bound, tables: tables.value };
    const counts = counting === "saved" ? null : await histogram({ ...about, mode: counting }, own.signal).catch(() => null);
    if (controller === own) bars.value = counts;
  } catch (error) {
    if (controller !== own || isAbort(error)) return;
    failure.value = messageOf(error);
    mistakes.value = error instanceof Failure ? mistakesOf(error) : [];
    bars.value = null;
  } finally {
    if (controller === own) running.value = false;
  }
}

/** Stops what runs. The connection is closed, and the server stops the query. */
export function cancel(): void {
  controller?.abort();
  controller = null;
  running.value = false;
}

/** Narrows the view to a range of time. */
export function zoom(from: number, to: number): void {
  if (bounds.value) range.value = absolute({ start: from, end: to });
  else if (mode.value === "sql") text.value = withCondition(text.value, `timestamp >= TIMESTAMP_MICROS(${Math.round(from * 1000)}) AND timestamp < TIMESTAMP_MICROS(${Math.round(to * 1000)})`);
  else if (mode.value === "lql") text.value = `${text.value} t:>=${new Date(from).toISOString()} t:<${new Date(to).toISOString()}`.trim();
  void start();
}

/** Forgets what is shown, where another endpoint is chosen or the session has ended. */
export function clear(): void {
  cancel();
  result.value = null;
  failure.value = null;
  mistakes.value = [];
  bars.value = null;
  chosenRow.value = null;
  tables.value = new Map();
}
