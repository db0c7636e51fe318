// Values as text: in cells, in the tree, in files.
import { signal } from "@preact/signals";
import type { Type, Value } from "./types";

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

/** A value as JSON, as the server's own answers write it. */
export function toJson(value: Value, type: Type): unknown {
  if (value === null) return null;
  switch (type.kind) {
    case "timestamp":
      return Math.round((value as number) * 1000);
    case "datetime":
    case "date":
    case "time":
      return text(value, type);
    case "list":
      return (value as Value[]).map((one) => toJson(one, type.item as Type));
    case "record":
      return Object.fromEntries((type.fields ?? []).map((field) => [field.name, toJson((value as Record<string, Value>)[field.name] ?? null, field.type)]));
    default:
      // JSON has no integers beyond 2^53 that all programs read alike.
      return typeof value === "bigint" ? String(value) : value;
  }
}

/** A value without its nulls, which records of logs are full of. */
function dense(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 1 && typeof value[0] === "object" ? dense(value[0]) : value.map(dense);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null).map(([name, one]) => [name, dense(one)]));
}

/** A value as the text of a cell. */
export function text(value: Value, type: Type): string {
  if (value === null) return "";
  switch (type.kind) {
    case "timestamp":
      return time(value as number);
    case "datetime":
      return time(value as number, true).replace(/\.000$/, "");
    case "date":
      return time(value as number, true).slice(0, 10);
    case "time":
      return time(value as number, true).slice(11).replace(/\.000$/, "");
    case "list":
    case "record":
      return JSON.stringify(dense(toJson(value, type)));
    default:
      return String(value);
  }
}
