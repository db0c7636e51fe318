// The state of the page Explore: what is asked, what came of it. The address behind the # has all that is asked, so that a
// link shows the same to whoever has a token.
import { computed, signal } from "@preact/signals";
import { isAbort, messageOf } from "../api/client";
import { type EndpointInfo, endpoints, timeBounds } from "../api/document";
import { onForget } from "../api/session";
import type { Mistake } from "../editor/mistakes";
import { mistakesOf } from "../editor/mistakes";
import { type Histogram, histogram, overTime } from "../query/histogram";
import { around, followed, identifier, onlyTable, withRowCondition } from "../sqlText";
import { absolute, boundsOf, RELATIVE, type RangeText } from "../query/timeRange";
import { type Parameters, run } from "../result/run";
import type { Field, Result } from "../result/types";
import { address, rewrite } from "../route";
import { dropDraft, draftOf, keepDraft } from "../drafts";
import { T } from "../text";
import { columnsOf } from "./fields";
import { type Entry, remember } from "./history";
import * as live from "./live";

export type Mode = "sql" | "lql" | "saved";
export type View = "table" | "chart" | "json";

export const endpointName = signal("");
export const parameters = signal<Parameters>({});
export const mode = signal<Mode>("sql");
export const text = signal("");
export const range = signal<RangeText>("24h");
export const view = signal<View>("table");

/** Whether something was written that has not been run. */
export const isEdited = signal(false);

/** What the page is left with: it is there again over a reload, if that is of the same address. */
interface Kept {
  address: string;
  endpoint: string;
  mode: Mode;
  text: string;
  range: RangeText;
  parameters: Parameters;
}
const DRAFT = "explore";

/** The texts of each endpoint in each language, as they were last. */
const TEXTS = "explore texts";
const MOST_TEXTS = 20;
const texts = new Map<string, string>(draftOf<[string, string][]>(TEXTS) ?? []);
const textKey = (endpoint: string, mode: Mode): string => JSON.stringify([endpoint, mode]);

function keep(): void {
  keepDraft(DRAFT, { address: location.hash, endpoint: endpointName.value, mode: mode.value, text: text.value, range: range.value, parameters: parameters.value } satisfies Kept);
}

/** Something is written by hand: it is kept until it is run. */
export function edit(change: { text?: string; parameters?: Parameters }): void {
  if (change.text !== undefined) text.value = change.text;
  if (change.parameters) parameters.value = change.parameters;
  isEdited.value = true;
  keep();
}

/** Keeps the text under its endpoint and language. */
export function keepText(): void {
  if (mode.value === "saved" || text.value === "") return;
  const key = textKey(endpointName.value, mode.value);
  texts.delete(key);
  texts.set(key, text.value);
  for (const oldest of [...texts.keys()].slice(0, -MOST_TEXTS)) texts.delete(oldest);
  keepDraft(TEXTS, [...texts]);
}

/** Another text takes the place of the one that is shown, which is found again: under its language, and among the queries that ran. */
export function leaveText(): void {
  keepText();
  if (isEdited.value && mode.value !== "saved" && text.value.trim() !== "") remember({ ...asRun(), unrun: true });
  isEdited.value = false;
  dropDraft(DRAFT);
}

/** Another language is shown, with what was last written in it. */
export function changeMode(next: Mode, first: (mode: Mode) => string): void {
  keepText();
  mode.value = next;
  if (next !== "saved") text.value = texts.get(textKey(endpointName.value, next)) ?? first(next);
  if (isEdited.value) keep();
}

/** The session has ended. What it has written is kept elsewhere, if it is kept. */
export function end(): void {
  clear();
  endpointName.value = "";
  isEdited.value = false;
}

onForget(() => {
  texts.clear();
  text.value = "";
  parameters.value = {};
});

/** What was last written of an endpoint in a language. */
export const lastText = (endpoint: string, mode: Mode): string | undefined => texts.get(textKey(endpoint, mode));

/** What is asked now, for the history. */
function asRun(): Entry {
  const given = Object.entries(parameters.value).filter(([name, value]) => value !== "" && name !== bounds.value?.start && name !== bounds.value?.end);
  const window = bounds.value ? [rangeLabel(range.value)] : [];
  return { endpoint: endpointName.value, mode: mode.value, text: mode.value === "saved" ? "" : text.value, address: address(["explore"], query()), at: Date.now(), with: [...window, ...given.map(([name, value]) => `${name} = ${value}`)].join(", ") };
}

const rangeLabel = (text: RangeText): string => RELATIVE.find((one) => one.text === text)?.label ?? (text.includes("/") ? text.replace("/", " – ").replace(/\.000Z/g, "Z") : T.time.all);

/** Whether the query is followed when it is run. */
export const isLive = signal(false);
export const running = signal(false);
export const result = signal<Result | null>(null);
export const failure = signal<string | null>(null);
export const mistakes = signal<Mistake[]>([]);
export const bars = signal<Histogram | null>(null);
/** The row that is shown whole, by its number: its place, or that of a row that came live. */
export const chosenRow = signal<number | null>(null);
/** The columns of granted tables, of those that are known. */
export const tables = signal<ReadonlyMap<string, Field[]>>(new Map());

export const endpoint = computed<EndpointInfo | undefined>(() => endpoints.value?.find((one) => one.name === endpointName.value));
export const bounds = computed(() => timeBounds(endpoint.value));
/** The table that a query in LQL names, or the first one. */
export const namedTable = computed(() => (mode.value === "lql" && /(?:^|\s)(?:f|from):`?(\w+)/.exec(text.value)?.[1]) || (endpoint.value?.tables?.[0] ?? ""));
/** The parameters that have no value and need one. */
export const missing = computed(() => endpoint.value?.parameters.filter((one) => one.required && !one.pinned && !parameters.value[one.name]).map((one) => one.name) ?? []);

/** How many rows come first in live mode. */
const FIRST_ROWS = 500;

let controller: AbortController | null = null;
/** How often something was asked for, ended or left. */
let turn = 0;
/** How often the page was left, or another endpoint chosen. */
let visit = 0;

/** Whether the page and its endpoint are still there: for what is told after an answer. */
export function here(): () => boolean {
  const before = visit;
  return () => visit === before;
}

/** Whether all is as it is now: for what goes on after an answer. */
export function unchanged(): () => boolean {
  const now = (): unknown[] => [turn, endpointName.value, mode.value, text.value];
  const before = now();
  return () => now().every((one, at) => one === before[at]);
}

const asking = new Map<string, Promise<Field[]>>();

/** The columns of a table of the endpoint, asked for once. None where it grants no such table or the server refuses. */
export async function columnsKnown(table: string | null | undefined): Promise<Field[]> {
  if (!table || !endpoint.value?.tables?.includes(table)) return [];
  const known = tables.value.get(table);
  if (known) return known;
  const name = endpointName.value;
  const key = JSON.stringify([name, table]);
  const begun = asking.get(key);
  if (begun) return begun;
  const own: Promise<Field[]> = columnsOf(name, asked(), table).then(
    (columns) => {
      // Not after a sign-out or for another endpoint.
      if (asking.get(key) === own && endpointName.value === name) tables.value = new Map([...tables.value, [table, columns]]);
      return columns;
    },
    () => [],
  ).finally(() => {
    if (asking.get(key) === own) asking.delete(key);
  });
  asking.set(key, own);
  return own;
}

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
  if (isLive.value) fields.live = "1";
  for (const [name, value] of Object.entries(parameters.value)) if (value) fields[`p.${name}`] = value;
  return fields;
}

/** The address of the view without a token. */
export const link = (): string => `${location.origin}${location.pathname}${address(["explore"], query())}`;
export function keepAddress(asStep = false): void {
  rewrite(["explore"], query(), asStep);
  if (isEdited.value) keep();
}

/** Takes what an address asks for. Returns whether it asks for anything. */
export function take(from: URLSearchParams): boolean {
  const name = from.get("endpoint");
  if (name === null) return false;
  leaveText();
  // Rows and columns of another endpoint are none of this one.
  if (name !== endpointName.value) clear();
  endpointName.value = name;
  parameters.value = Object.fromEntries([...from].filter(([key]) => key.startsWith("p.")).map(([key, value]) => [key.slice(2), value]));
  const wanted = from.get("mode");
  mode.value = wanted === "lql" || wanted === "saved" ? wanted : "sql";
  range.value = from.get("range") ?? "24h";
  const shown = from.get("view");
  view.value = shown === "chart" || shown === "json" ? shown : "table";
  text.value = from.get("q") ?? "";
  isLive.value = from.get("live") === "1";
  return true;
}

/** Takes what was written and not run before the page was loaded anew. Returns whether there was something. */
export function takeKept(): boolean {
  const kept = draftOf<Kept>(DRAFT);
  if (!kept || kept.address !== location.hash || !endpoints.value?.some((one) => one.name === kept.endpoint)) return false;
  endpointName.value = kept.endpoint;
  mode.value = kept.mode;
  range.value = kept.range;
  edit({ text: kept.text, parameters: kept.parameters });
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
  turn += 1;
  live.end();
  // New rows have no end in time: a range that has one is looked at as it is.
  if (range.value.includes("/")) isLive.value = false;
  const own = new AbortController();
  controller = own;
  running.value = true;
  failure.value = null;
  mistakes.value = [];
  isEdited.value = false;
  dropDraft(DRAFT);
  keepAddress(asStep && result.value !== null);
  if (isLive.value) return startLive(own);
  const now = Date.now();
  const base = asked(now);
  const bound = bounds.value ? boundsOf(range.value, now) : null;
  // The editor, the range and the address may be others when the answer is there.
  const entry = asRun();
  const ran = { endpoint: endpointName.value, mode: mode.value, text: text.value };
  try {
    const found = await run(ran.endpoint, withText(base), own.signal);
    if (controller !== own) return;
    result.value = found;
    chosenRow.value = null;
    remember(entry);
    // Counted after the rows are there: a query that is refused is not refused twice.
    const columns = ran.mode === "sql" ? await columnsKnown(onlyTable(ran.text)) : [];
    if (controller !== own) return;
    const about = { endpoint: ran.endpoint, parameters: base, text: ran.text, range: bound, columns };
    const counts = ran.mode === "saved" ? null : await histogram({ ...about, mode: ran.mode }, own.signal).catch(() => null);
    if (controller === own) bars.value = counts;
  } catch (error) {
    if (controller !== own || isAbort(error)) return;
    failure.value = messageOf(error);
    // Places in another text would be wrong ones.
    mistakes.value = ran.text === text.value ? mistakesOf(error) : [];
    bars.value = null;
  } finally {
    if (controller === own) running.value = false;
  }
}

/** Asks how many rows the query matches over time, in place of the rows. */
export async function countOverTime(): Promise<void> {
  if (mode.value === "saved") return;
  const isSame = unchanged();
  const columns = mode.value === "sql" ? await columnsKnown(onlyTable(text.value)) : [];
  if (!isSame()) return;
  const statement = overTime({ mode: mode.value, text: text.value, range: bounds.value ? boundsOf(range.value, Date.now()) : null, columns });
  if (statement === null) return;
  leaveText();
  text.value = statement;
  await start();
}

/** The parameters of a request that follows the query. The time range says which rows come first: as a parameter of the endpoint it would
 *  stand still, and callers who follow the same could not share the work. */
export function askedLive(): Parameters {
  const own = asked();
  const known = new Set(endpoint.value?.parameters.map((one) => one.name));
  if (bounds.value) {
    const { start, end } = bounds.value;
    for (const one of endpoint.value?.parameters ?? []) if ((one.name === start || one.name === end) && !one.required) delete own[one.name];
    if (RELATIVE.some((one) => one.text === range.value) && !known.has("follow_since")) own.follow_since = range.value;
  }
  const statement = mode.value === "sql" ? followed(text.value) : null;
  if (!known.has("follow_rows")) own.follow_rows = String(statement?.rows ?? FIRST_ROWS);
  return statement ? { ...own, sql: statement.sql } : withText(own);
}

/** The columns of the query that is followed, and those that its rows may have: events have no types. */
async function liveColumns(signal: AbortSignal): Promise<{ columns: Field[]; hints: Field[] }> {
  const name = endpointName.value;
  const own = asked();
  const table = (mode.value === "sql" && onlyTable(text.value)) || namedTable.value;
  if (mode.value === "sql") {
    const found = await run(name, { ...own, sql: around(followed(text.value).sql, "FALSE") }, signal).catch(() => null);
    if (found) return { columns: found.columns, hints: [] };
    // Another endpoint may have been chosen, which has other columns.
    if (signal.aborted) return { columns: [], hints: [] };
  }
  return { columns: [], hints: await columnsKnown(table) };
}

async function startLive(own: AbortController): Promise<void> {
  bars.value = null;
  live.phase.value = "connecting";
  const parameters = askedLive();
  const source = { endpoint: endpointName.value, parameters };
  const entry = asRun();
  const ran = { text: text.value };
  const known = await liveColumns(own.signal);
  if (controller !== own) return;
  running.value = false;
  remember(entry);
  let isFirst = true;
  live.begin({
    ...source,
    ...known,
    isWhole: () => view.value !== "table",
    draw: (rows) => {
      if (isFirst) chosenRow.value = null;
      isFirst = false;
      result.value = rows;
    },
    over: (error) => {
      isLive.value = false;
      keepAddress();
      if (error === null) return;
      failure.value = messageOf(error);
      mistakes.value = ran.text === text.value ? mistakesOf(error) : [];
    },
  });
}

/** Begins to follow the query, or ends that. The rows stay. */
export function setLive(value: boolean): void {
  if (!value) {
    cancel();
    keepAddress();
    return;
  }
  if (range.value.includes("/")) range.value = "24h";
  isLive.value = true;
  void start();
}

/** Stops what runs or is followed. The connection is closed, and the server stops the query. */
export function cancel(): void {
  controller?.abort();
  controller = null;
  turn += 1;
  running.value = false;
  live.end();
  isLive.value = false;
}

/** The page is left: nothing of it goes on that would change the address or follow rows. What runs may end. */
export function leave(): void {
  turn += 1;
  visit += 1;
  if (isLive.value) cancel();
}

/** Narrows the view to a range of time. */
export function zoom(from: number, to: number): void {
  if (bounds.value) range.value = absolute({ start: from, end: to });
  else if (mode.value === "sql") text.value = withRowCondition(text.value, `timestamp >= TIMESTAMP_MICROS(${Math.round(from * 1000)}) AND timestamp < TIMESTAMP_MICROS(${Math.round(to * 1000)})`);
  else if (mode.value === "lql") text.value = `${text.value} t:>=${new Date(from).toISOString()} t:<${new Date(to).toISOString()}`.trim();
  void start();
}

/** Forgets what is shown, where another endpoint is chosen or the session has ended. */
export function clear(): void {
  cancel();
  visit += 1;
  result.value = null;
  failure.value = null;
  mistakes.value = [];
  bars.value = null;
  chosenRow.value = null;
  tables.value = new Map();
  asking.clear();
}
