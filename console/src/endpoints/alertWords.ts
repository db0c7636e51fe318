// What an alert does, in words, and its condition in parts.
import type { Schemas } from "../api/client";
import { windowInWords } from "../query/window";
import { T } from "../text";

export type AlertFields = Schemas["NewAlert"];

export const COMPARISONS = [">", ">=", "<", "<=", "=", "!="] as const;
export type Comparison = (typeof COMPARISONS)[number];

/** A condition in parts; without a column it is about the number of rows. */
export interface Condition {
  column: string | null;
  comparison: Comparison;
  number: string;
}

export function conditionOf(text: string): Condition {
  const [, left = "rows", comparison = ">", number = "0"] = /^(.*?)\s*(>=|<=|!=|>|<|=)\s*(\S+)$/.exec(text) ?? [];
  const quoted = /^`(.*)`$/.exec(left)?.[1];
  return { column: quoted ?? (left === "rows" ? null : left), comparison: comparison as Comparison, number };
}

export function textOf({ column, comparison, number }: Condition): string {
  const left = column === null ? "rows" : `\`${column}\``;
  return `${left} ${comparison} ${number}`;
}

/** The start of the window until each run that parameters ask for; null where they ask for other times. */
export function windowOfAlert(parameters: Record<string, string>, bounds: { start: string; end: string }): string | null {
  const [start, end] = [parameters[bounds.start] ?? "", parameters[bounds.end] ?? ""];
  return windowInWords(start) !== null && (end === "" || end === "now") ? start : null;
}

/** The host of an address; the rest of it may be a secret. */
function hostOf(url: string): string {
  try {
    return new URL(url).host || url;
  } catch {
    return url;
  }
}

/** What an alert will do. `bounds` are the parameters of the endpoint that bound the time. */
export function alertInWords({ every_minutes, condition, url, parameters, again_after_minutes, notify_resolved, paused }: AlertFields, bounds: { start: string; end: string } | null): string[] {
  const { column, comparison, number } = conditionOf(condition);
  const W = T.alerts.words;
  const window = bounds && windowOfAlert(parameters ?? {}, bounds);
  const given = Object.entries(parameters ?? {}).filter(([name]) => !window || (name !== bounds?.start && name !== bounds?.end)).map(([name, value]) => `${name} = ${value}`);
  const lines = [W.asked(every_minutes, given.join(", "), window ? (windowInWords(window) ?? "") : ""), W.told(column, T.alerts.comparisons[comparison] ?? comparison, number, hostOf(url))];
  if (again_after_minutes) lines.push(W.pause(again_after_minutes));
  lines.push(notify_resolved === false ? W.silent : W.resolved);
  if (paused) lines.push(W.paused);
  return lines;
}
