// Values as text: in cells, in the tree, in files.
import { signal } from "@preact/signals";
import type { Field, Result, Type, Value } from "./types";

/** Whether times are shown in UTC; otherwise in the zone of the browser. */
export const inUtc = signal(readPreference());

function readPreference(): boolean {
  try {
    return localStorage.getItem("tidegate.utc") === "true";
  } catch {
    return false;
  }
}

export function setUtc(value: boolean): void {
  inUtc.value = value;
  try {
    localStorage.setItem("tidegate.utc", String(value));
  } catch {
    // The choice then lasts as long as the page.
  }
}

const pad = (value: number, width = 2): string => String(value).padStart(width, "0");

/** A time in milliseconds as `2026-01-31 12:00:00.000`, in the chosen zone unless told. */
export function time(ms: number, utc = inUtc.value): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const shifted = utc ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  const text = shifted.toISOString().replace("T", " ").replace("Z", "");
  const micros = Math.round((ms - Math.floor(ms)) * 1000);
  return micros > 0 && micros < 1000 ? text + pad(micros, 3) : text;
}

export function short(ms: number): string {
  return time(ms).slice(5, 19);
}

/** How long ago a time was, in words that fit a cell. */
export function ago(ms: number, now = Date.now()): string {
  const seconds = Math.max(0, (now - ms) / 1000);
  for (const [unit, size] of [["d", 86_400], ["h", 3600], ["min", 60]] as const) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return `${Math.floor(seconds)} s ago`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function bytes(value: number): string {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
    if (value >= size) return `${(value / size).toFixed(value / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${value} B`;
}

export function duration(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms > 0 && ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

/** A field of a record. Names come from logs: what all objects have by them (`constructor`) is none. */
export const fieldOf = (value: Value, name: string): Value => (typeof value === "object" && value !== null && Object.hasOwn(value, name) ? ((value as Record<string, Value>)[name] ?? null) : null);

/** Rows in JSON have no types, so that one may have something else than a list or a record where the others have these. */
const isList = (value: Value, type: Type): value is Value[] => type.kind === "list" && Array.isArray(value);
const isRecord = (value: Value, type: Type): value is Record<string, Value> => type.kind === "record" && typeof value === "object" && value !== null && !Array.isArray(value);

/** A value as JSON, as the server's own answers write it. */
export function toJson(value: Value, type: Type): unknown {
  if (value === null) return null;
  if (isList(value, type)) return value.map((one) => toJson(one, type.item as Type));
  if (isRecord(value, type)) return Object.fromEntries((type.fields ?? []).map((field) => [field.name, toJson(fieldOf(value, field.name), field.type)]));
  switch (type.kind) {
    case "timestamp":
      return typeof value === "number" ? Math.round(value * 1000) : value;
    case "datetime":
    case "date":
    case "time":
      return text(value, type);
    default:
      // JSON has no integers beyond 2^53 that all programs read alike.
      return typeof value === "bigint" ? String(value) : value;
  }
}

/** A text that takes no more than so many characters. What is behind them is not written. */
class Bounded {
  private parts: string[] = [];

  constructor(private left: number) {}

  get room(): number {
    return this.left;
  }

  put(text: string): void {
    if (this.left > 0) this.parts.push(text.length > this.left ? text.slice(0, this.left) : text);
    this.left -= text.length;
  }

  /** A value that is neither list nor record. */
  plain(value: Value, type: Type): void {
    const json = toJson(value, type);
    // No more of a text is looked at than there is room for.
    this.put(JSON.stringify(typeof json === "string" && json.length > this.left ? json.slice(0, Math.max(0, this.left)) : json));
  }

  text(): string {
    return this.parts.join("");
  }
}

/** Writes a value in one line, without the nulls and the lists of one record that logs are full of. */
function writeDense(out: Bounded, value: Value, type: Type): void {
  if (isList(value, type)) {
    const item = type.item as Type;
    if (value.length === 1 && typeof value[0] === "object") return writeDense(out, value[0], item);
    out.put("[");
    for (let at = 0; at < value.length && out.room > 0; at += 1) {
      if (at > 0) out.put(",");
      writeDense(out, value[at] ?? null, item);
    }
    out.put("]");
  } else if (isRecord(value, type)) {
    let before = "{";
    for (const field of type.fields ?? []) {
      if (out.room <= 0) return;
      const one = fieldOf(value, field.name);
      if (one === null) continue;
      out.put(`${before}${JSON.stringify(field.name)}:`);
      writeDense(out, one, field.type);
      before = ",";
    }
    out.put(before === "{" ? "{}" : "}");
  } else {
    out.plain(value, type);
  }
}

/** Writes a value over several lines, as JSON.stringify does with two spaces. */
function writeLines(out: Bounded, value: Value, type: Type, indent: string): void {
  const inner = `${indent}  `;
  if (isList(value, type)) {
    for (let at = 0; at < value.length && out.room > 0; at += 1) {
      out.put(`${at > 0 ? "," : "["}\n${inner}`);
      writeLines(out, value[at] ?? null, type.item as Type, inner);
    }
    out.put(value.length > 0 ? `\n${indent}]` : "[]");
  } else if (isRecord(value, type)) {
    const fields = type.fields ?? [];
    for (let at = 0; at < fields.length && out.room > 0; at += 1) {
      const { name, type } = fields[at] as Field;
      out.put(`${at > 0 ? "," : "{"}\n${inner}${JSON.stringify(name)}: `);
      writeLines(out, fieldOf(value, name), type, inner);
    }
    out.put(fields.length > 0 ? `\n${indent}}` : "{}");
  } else {
    out.plain(value, type);
  }
}

/** The first rows of a result as JSON: as many as are whole within so many characters. Of a first row that is longer, its start. */
export function jsonOf(result: Pick<Result, "columns" | "rows" | "cell">, mostRows: number, most: number): { text: string; rows: number; isCut: boolean } {
  // Of columns of the same name the last one counts, as in an object.
  const places = new Map(result.columns.map((column, at) => [column.name, at]));
  const type: Type = { kind: "record", name: "STRUCT", fields: [...places.values()].map((at) => result.columns[at] as Field) };
  const written: string[] = [];
  for (let row = 0, left = most; row < Math.min(result.rows, mostRows); row += 1) {
    const out = new Bounded(left);
    writeLines(out, Object.fromEntries([...places].map(([name, at]) => [name, result.cell(row, at)])), type, "  ");
    if (out.room < 0 && row === 0) return { text: `[\n  ${out.text()}…`, rows: 1, isCut: true };
    if (out.room < 0) break;
    written.push(out.text());
    left = out.room;
  }
  return { text: written.length > 0 ? `[\n  ${written.join(",\n  ")}\n]` : "[]", rows: written.length, isCut: false };
}

/** A value as the text of a cell; no more than the first `most` characters of it are written. */
export function text(value: Value, type: Type, most = Infinity): string {
  if (value === null) return "";
  if (isList(value, type) || isRecord(value, type)) {
    const out = new Bounded(most);
    writeDense(out, value, type);
    return out.text();
  }
  if (typeof value === "number") {
    switch (type.kind) {
      case "timestamp":
        return time(value);
      case "datetime":
        return time(value, true).replace(/\.000$/, "");
      case "date":
        return time(value, true).slice(0, 10);
      case "time":
        return time(value, true).slice(11).replace(/\.000$/, "");
    }
  }
  return (typeof value === "object" ? JSON.stringify(value) : String(value)).slice(0, most);
}
