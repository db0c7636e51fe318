// A draft of an endpoint: what was written and not saved, the version that it was made from, and how it goes along with a newer one.
import type { Schemas } from "../api/client";
import type { ParameterInfo } from "../api/document";
import { draftOf, keepDraft } from "../drafts";
import { tokens } from "../sqlText";
import { lengthOf, windowOf, withoutZoom } from "../query/window";
import type { EndpointRecord } from "../api/records";

export type Fields = Schemas["NewEndpoint"];

/** An endpoint as it was read, with its entity tag. */
export interface Read {
  record: EndpointRecord;
  tag: string;
}

export interface Draft {
  fields: Fields;
  /** What it was made from; null for a new endpoint. */
  base: { version: number; tag: string; fields: Fields } | null;
  /** What was put aside for it, and may be taken again. */
  aside?: Fields;
}

/** The name of the draft of an endpoint, by its id; of a new one without. */
export const draftName = (id: string | undefined): string => (id === undefined ? "new endpoint" : `endpoint ${id}`);

export function fieldsOf(record: EndpointRecord): Fields {
  const { name, description, query, parameters, max_limit, cache_duration_seconds, proactive_requerying_seconds, sandboxable, redact_pii } = record;
  return { name, description, query, parameters, max_limit, cache_duration_seconds, proactive_requerying_seconds, sandboxable, redact_pii };
}

export const draftFrom = ({ record, tag }: Read): Draft => ({ fields: fieldsOf(record), base: { version: record.version, tag, fields: fieldsOf(record) } });

export const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The draft of an endpoint that differs from what is saved, if there is one. */
export function unsaved(id: string | undefined, record: EndpointRecord | null): Draft | null {
  const draft = draftOf<Draft>(draftName(id));
  return draft && !(record && isSame(draft.fields, fieldsOf(record))) ? draft : null;
}

/** `theirs` with what `mine` changed of `base`: what only one of the two changed is as that one has it, and of what both changed, mine counts. */
export function merged<Value extends object>(base: Value, mine: Value, theirs: Value): Value {
  const changed = Object.entries(mine).filter(([name, value]) => !isSame(value, (base as Record<string, unknown>)[name]));
  return { ...theirs, ...Object.fromEntries(changed) };
}

/** Fields as a text to compare. */
export function written({ query, ...settings }: Partial<Fields>): string {
  const lines = Object.entries(settings).map(([name, value]) => `${name}: ${JSON.stringify(value, null, name === "parameters" ? 2 : 0)}`);
  return `${query ?? ""}\n\n${lines.join("\n")}`;
}

/** Begins a new endpoint from another page. One that is half written is put aside. */
export function beginNew(fields: Fields): void {
  const before = draftOf<Draft>(draftName(undefined));
  keepDraft(draftName(undefined), { fields, base: null, aside: before?.fields } satisfies Draft);
}

/** The fields of a new endpoint for a view of Explore: a statement over what another endpoint grants. The window of the view moves: it is
 *  the default of parameters, and no constant. */
export function fieldsOfView({ query, parameters = [], redact_pii }: Partial<Fields>, bounds: { start: string } | null, range: string): Fields {
  const length = bounds && lengthOf(range);
  let own = parameters.map((one) => (length && one.name === bounds?.start ? { ...one, default: windowOf(length) } : one));
  let name = "since";
  while (own.some((one) => one.name.toLowerCase() === name)) name += "_";
  const moved = withoutZoom(query ?? "", name);
  if (moved) own = [...own, { name, kind: "timestamp", default: moved.start }];
  return { name: "", description: "", query: moved?.sql ?? query ?? "", parameters: own, max_limit: 1000, cache_duration_seconds: 0, proactive_requerying_seconds: null, sandboxable: false, redact_pii };
}

/** The parameters of a draft as its callers would see them: those that are declared, and those that the query uses beside. */
export function parametersOf({ query = "", parameters = [] }: Partial<Fields>): ParameterInfo[] {
  const declared = parameters.map((one): ParameterInfo => ({
    name: one.name,
    required: (one.required ?? false) && (one.default ?? null) === null,
    pinned: false,
    description: one.description ?? "",
    type: one.kind === "int64" ? "integer" : one.kind === "float64" ? "number" : one.kind === "boolean" ? "boolean" : "string",
    isTime: one.kind === "timestamp" || one.format === "timestamp",
    choices: one.enum ?? [],
    preset: one.default ?? "",
  }));
  const known = new Set(declared.map((one) => one.name.toLowerCase()));
  const used = tokens(query).filter((one) => one.kind === "word" && /^@\w/.test(one.text)).map((one) => one.text.slice(1));
  const others = [...new Map(used.filter((name) => !known.has(name.toLowerCase())).map((name) => [name.toLowerCase(), name])).values()];
  return [...declared, ...others.map((name) => ({ name, required: false, pinned: false, description: "", type: "string", isTime: false, choices: [], preset: "" }))];
}
