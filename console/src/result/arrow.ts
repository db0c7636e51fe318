// Reads answers in Arrow. JSON would lose what the console needs: the types of columns, and integers beyond 2^53.
import { type DataType, tableFromIPC } from "@uwdata/flechette";
import { fieldOf as fieldOfRow } from "./format";
import type { Field, Type, Value } from "./types";

interface Loose {
  typeId: number;
  bitWidth?: number;
  timezone?: string | null;
  unit?: number;
  children?: { name: string; type: Loose }[];
  dictionary?: Loose;
}

/** The ids of types in the format Arrow. */
const ID = { DICTIONARY: -1, INT: 2, FLOAT: 3, BINARY: 4, UTF8: 5, BOOL: 6, DECIMAL: 7, DATE: 8, TIME: 9, TIMESTAMP: 10, LIST: 12, STRUCT: 13, LARGE_BINARY: 19, LARGE_UTF8: 20, LARGE_LIST: 21, BINARY_VIEW: 23, UTF8_VIEW: 24 };

function typeOf(type: Loose): Type {
  switch (type.typeId) {
    case ID.DICTIONARY:
      return type.dictionary ? typeOf(type.dictionary) : { kind: "text", name: "STRING" };
    case ID.INT:
      return { kind: "number", name: "INT64" };
    case ID.FLOAT:
      return { kind: "number", name: "FLOAT64" };
    case ID.DECIMAL:
      return { kind: "number", name: type.bitWidth === 256 ? "BIGNUMERIC" : "NUMERIC" };
    case ID.BINARY:
    case ID.LARGE_BINARY:
    case ID.BINARY_VIEW:
      return { kind: "bytes", name: "BYTES" };
    case ID.BOOL:
      return { kind: "boolean", name: "BOOL" };
    case ID.DATE:
      return { kind: "date", name: "DATE" };
    case ID.TIME:
      return { kind: "time", name: "TIME" };
    case ID.TIMESTAMP:
      return type.timezone ? { kind: "timestamp", name: "TIMESTAMP" } : { kind: "datetime", name: "DATETIME" };
    case ID.LIST:
    case ID.LARGE_LIST: {
      const item = typeOf(type.children?.[0]?.type ?? { typeId: ID.UTF8 });
      return { kind: "list", name: item.kind === "record" ? "RECORD" : `ARRAY<${item.name}>`, item };
    }
    case ID.STRUCT:
      return { kind: "record", name: "STRUCT", fields: (type.children ?? []).map(fieldOf) };
    default:
      return { kind: "text", name: "STRING" };
  }
}

function fieldOf(field: { name: string; type: Loose }): Field {
  return { name: field.name, type: typeOf(field.type) };
}

/** The digits behind the point of the types of decimals. */
const SCALES: Record<string, number> = { NUMERIC: 9, BIGNUMERIC: 38 };

/** A decimal, given as a whole number of its last digits: a number if that has all of its digits, else its text. */
function decimal(units: bigint, scale: number): Value {
  const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, "0");
  const rest = digits.slice(-scale).replace(/0+$/, "");
  const text = `${units < 0n ? "-" : ""}${digits.slice(0, -scale)}${rest && `.${rest}`}`;
  return String(Number(text)) === text ? Number(text) : text;
}

/** A value as the library gives it, as a plain one. */
function plain(value: unknown, type: Type): Value {
  if (value === null || value === undefined) return null;
  const scale = SCALES[type.name];
  if (scale !== undefined && typeof value === "bigint") return decimal(value, scale);
  switch (type.kind) {
    case "list":
      return Array.from(value as Iterable<unknown>, (one) => plain(one, type.item as Type));
    case "record":
      return Object.fromEntries((type.fields ?? []).map((field) => [field.name, plain((value as Record<string, unknown>)[field.name], field.type)]));
    case "bytes":
      return btoa(Array.from(value as Uint8Array, (byte) => String.fromCharCode(byte)).join(""));
    case "time":
      return Number(value) / 1000;
    default:
      return typeof value === "bigint" && BigInt(Number(value)) === value && Number.isSafeInteger(Number(value)) ? Number(value) : (value as Value);
  }
}

export interface Columns {
  columns: Field[];
  rows: number;
  cell(row: number, column: number): Value;
}

/** The columns of an Arrow stream. Values are made when they are asked for. */
export function readArrow(bytes: ArrayBuffer): Columns {
  const table = tableFromIPC(bytes, { useBigInt: true, useDate: false, useDecimalInt: true });
  const columns = table.schema.fields.map((field) => fieldOf({ name: field.name, type: field.type as DataType as unknown as Loose }));
  const children = columns.map((_, at) => table.getChildAt(at));
  return {
    columns,
    rows: table.numRows,
    cell: (row, column) => plain(children[column]?.at(row), columns[column]?.type ?? { kind: "text", name: "STRING" }),
  };
}

/** The columns of rows in JSON, for endpoints whose code answers a document. */
export function readRows(rows: unknown): Columns {
  const list = (Array.isArray(rows) ? rows : [rows]).map((row) => (typeof row === "object" && row !== null && !Array.isArray(row) ? (row as Record<string, Value>) : { value: row as Value }));
  const names = [...new Set(list.slice(0, 1000).flatMap((row) => Object.keys(row)))];
  const columns = names.map((name) => ({ name, type: guessed(list.map((row) => fieldOfRow(row, name)).find((value) => value !== null) ?? null) }));
  return { columns, rows: list.length, cell: (row, column) => fieldOfRow(list[row] ?? {}, names[column] ?? "") };
}

/** The name of the type of a null of JSON, which may be any. */
export const UNKNOWN = "NULL";

/** The type of a value of JSON. */
export function guessed(value: Value): Type {
  if (value === null) return { kind: "text", name: UNKNOWN };
  if (Array.isArray(value)) return { kind: "list", name: "ARRAY", item: guessed(value[0] ?? null) };
  if (value !== null && typeof value === "object") return { kind: "record", name: "STRUCT", fields: Object.entries(value).map(([name, one]) => ({ name, type: guessed(one) })) };
  if (typeof value === "number") return { kind: "number", name: "FLOAT64" };
  if (typeof value === "boolean") return { kind: "boolean", name: "BOOL" };
  return { kind: "text", name: "STRING" };
}
