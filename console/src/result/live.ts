// The rows of a query that is followed: the newest ones, as many as the page holds. They come as JSON, without types; those that
// are known of the query are used, and what they lack is taken from the values.
import { guessed, UNKNOWN } from "./arrow";
import { fieldOf } from "./format";
import type { Field, Result, Type, Value } from "./types";

/** The most rows that are held, and the most characters of their JSON. */
export const MOST_ROWS = 10_000;
const MOST_LENGTH = 32 << 20;

interface Row {
  values: Record<string, Value>;
  length: number;
}

export class LiveRows {
  /** How many rows have come, those among them that are held no more. */
  seen = 0;
  private held: Row[] = [];
  private length = 0;

  /** `columns` are those that every row has, `hints` those that rows may have. */
  constructor(
    private columns: Field[],
    private readonly hints: Field[],
    private readonly most = MOST_ROWS,
    private readonly mostLength = MOST_LENGTH,
  ) {}

  /** How many rows are held no more. */
  get dropped(): number {
    return this.seen - this.held.length;
  }

  /** Takes rows as JSON, the oldest first. */
  push(rows: string[]): void {
    for (const text of rows) {
      const values = parse(text);
      this.learn(values);
      this.held.push({ values, length: text.length });
      this.length += text.length;
    }
    this.seen += rows.length;
    let first = 0;
    // The newest row is held, however long it is.
    while (this.held.length - first > this.most || (this.length > this.mostLength && first < this.held.length - 1)) {
      this.length -= this.held[first]?.length ?? 0;
      first += 1;
    }
    if (first > 0) this.held = this.held.slice(first);
  }

  /** What is held now, the newest first. It does not change when further rows come. Where the columns are the same as before,
   *  so is their list. */
  result(): Result {
    const rows = this.held.slice();
    const columns = this.columns;
    const cell = (row: number, column: number): Value => {
      const field = columns[column];
      return field ? typed(fieldOf(rows[rows.length - 1 - row]?.values ?? {}, field.name), field.type) : null;
    };
    return { columns, rows: rows.length, newest: this.seen - 1, cell, truncated: false, bytes: this.length, milliseconds: 0, cost: null, notes: [] };
  }

  private learn(values: Record<string, Value>): void {
    for (const [name, value] of Object.entries(values)) this.columns = joined(this.columns, name, value, this.hints);
  }
}

/** The fields with what a value has beyond them; the same list where that is nothing. */
function joined(fields: Field[], name: string, value: Value, hints: Field[] = []): Field[] {
  const at = fields.findIndex((field) => field.name === name);
  const before = fields[at];
  const type = widened(before?.type ?? hints.find((hint) => hint.name === name)?.type ?? { kind: "text", name: UNKNOWN }, value);
  if (type === before?.type) return fields;
  return before ? fields.map((field) => (field === before ? { name, type } : field)) : [...fields, { name, type }];
}

const LONG = /\d{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Reads a row. Integers that are no numbers of JavaScript become texts of digits. */
function parse(text: string): Record<string, Value> {
  const safe = LONG.test(text) ? text.replace(TOKEN, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token)) : text;
  const value = JSON.parse(safe) as Value;
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : { value };
}

/** The type with the fields that a value has beyond it; the same one where there are none. */
function widened(type: Type, value: Value): Type {
  if (value === null) return type;
  if (type.name === UNKNOWN) return guessed(value);
  const isRecord = typeof value === "object" && !Array.isArray(value);
  if (Array.isArray(value) !== (type.kind === "list") || isRecord !== (type.kind === "record")) return type.name === MIXED.name ? type : MIXED;
  if (Array.isArray(value)) {
    const before = type.item as Type;
    const item = value.reduce<Type>(widened, before);
    return item === before ? type : { ...type, item };
  }
  if (isRecord) {
    const before = type.fields ?? [];
    const fields = Object.entries(value).reduce((known, [name, one]) => joined(known, name, one), before);
    return fields === before ? type : { ...type, fields };
  }
  return type;
}

/** The type of values that are not of one kind. They are shown as JSON. */
const MIXED: Type = { kind: "text", name: "JSON" };

/** A value of JSON as one of the type. */
function typed(value: Value, type: Type): Value {
  if (value === null) return null;
  switch (type.kind) {
    case "timestamp":
      return typeof value === "number" ? value / 1000 : value;
    case "datetime":
    case "date":
    case "time":
      return typeof value === "string" ? moment(value) : value;
    case "number":
      return typeof value === "string" && /^-?\d+$/.test(value) ? BigInt(value) : value;
    case "list":
      return (value as Value[]).map((one) => typed(one, type.item as Type));
    case "record":
      return Object.fromEntries((type.fields ?? []).map((field) => [field.name, typed(fieldOf(value, field.name), field.type)]));
    case "text":
      return typeof value === "object" ? JSON.stringify(value) : value;
    default:
      return value;
  }
}

/** A date, a time or both (`2026-01-31T12:00:00.000001`) in milliseconds, with the microseconds as a fraction. */
function moment(text: string): Value {
  const [, date, time, fraction] = /^(\d{4}-\d\d-\d\d)?[T ]?(\d\d:\d\d:\d\d)?(\.\d+)?$/.exec(text) ?? [];
  if (date === undefined && time === undefined) return text;
  return Date.parse(`${date ?? "1970-01-01"}T${time ?? "00:00:00"}Z`) + Number(fraction ?? 0) * 1000;
}
