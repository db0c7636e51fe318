// Severities: which field of a record holds one, and the colour that stands for it everywhere.
import { fieldOf } from "./format";
import { recordOf, type Field, type Type, type Value } from "./types";
import type { Path, Step } from "./path";

/** Names of fields that hold a severity, the most telling first. */
const NAMES = ["error_severity", "severity", "level", "log_level", "severity_text", "status_code", "status"];

export type Severity = "error" | "warning" | "info" | "debug" | "other";

/** The severity that a value stands for; a status of HTTP counts as one. */
export function severityOf(value: Value): Severity {
  if (typeof value === "number") return value >= 500 && value < 600 ? "error" : value >= 400 && value < 500 ? "warning" : value >= 300 && value < 400 ? "debug" : value >= 100 && value < 300 ? "info" : "other";
  const text = String(value ?? "").toLowerCase();
  if (/^(err|error|fatal|panic|crit|critical|alert|emerg|emergency|severe)$/.test(text) || /^5(\d\d|xx)$/.test(text)) return "error";
  if (/^(warn|warning)$/.test(text) || /^4(\d\d|xx)$/.test(text)) return "warning";
  if (/^(info|log|notice|information)$/.test(text) || /^[12](\d\d|xx)$/.test(text)) return "info";
  if (/^(debug\d?|trace|verbose)$/.test(text) || /^3(\d\d|xx)$/.test(text)) return "debug";
  return "other";
}

/** The path of the field that holds the severity of rows with these columns, if one does. */
export function severityPath(columns: Field[]): Path | null {
  let best: { rank: number; path: Path } | null = null;
  const visit = (fields: Field[], column: string | null, steps: Step[], depth: number): void => {
    for (const { name, type } of fields) {
      const rank = NAMES.indexOf(name.toLowerCase());
      const path = { column: column ?? name, steps: column === null ? [] : [...steps, { field: name }] };
      if (rank >= 0 && (type.kind === "text" || type.kind === "number") && (best === null || rank < best.rank)) best = { rank, path };
      const record = recordOf(type);
      if (record?.fields && depth < 4) visit(record.fields, path.column, type.kind === "list" ? [...path.steps, { element: 0, ofRecords: true }] : path.steps, depth + 1);
    }
  };
  visit(columns, null, [], 0);
  return (best as { path: Path } | null)?.path ?? null;
}

/** The value at a path. */
export function valueAt(value: Value, steps: Step[]): Value {
  return steps.reduce<Value>((at, step) => {
    if (at === null || typeof at !== "object") return null;
    if ("element" in step) return Array.isArray(at) ? (at[step.element] ?? null) : null;
    return Array.isArray(at) ? null : fieldOf(at, step.field);
  }, value);
}

/** The type at a path, of a column of this type. */
export function typeAt(type: Type, steps: Step[]): Type | null {
  return steps.reduce<Type | null>((at, step) => ("element" in step ? (at?.item ?? null) : (at?.fields?.find((field) => field.name === step.field)?.type ?? null)), type);
}
