// A result as the console holds it: typed columns and plain values.

/** The type of a column or field, by its name in SQL. */
export interface Type {
  kind: "text" | "number" | "boolean" | "timestamp" | "datetime" | "date" | "time" | "bytes" | "list" | "record";
  /** As SQL writes it, such as `ARRAY<INT64>`. */
  name: string;
  item?: Type;
  fields?: Field[];
}
export interface Field {
  name: string;
  type: Type;
}

/** Times are numbers of milliseconds since 1970, with the microseconds as a fraction. */
export type Value = null | string | number | bigint | boolean | Value[] | { [name: string]: Value };

/** What the statements of an answer cost, as the server tells private tokens. */
export interface Cost {
  statements: number;
  /** Rows of sources that were looked at. */
  rowsRead: number;
  /** Bytes of segments. */
  bytesRead: number;
  /** The most bytes that one statement held at a time. */
  memory: number;
}

export interface Result {
  columns: Field[];
  rows: number;
  /** Where rows keep coming, the newest first: the number of the row at place 0. Those below it have the numbers before. */
  newest?: number;
  cell(row: number, column: number): Value;
  /** Whether the endpoint has more rows than it gives. */
  truncated: boolean;
  /** The bytes of the answer, decompressed. */
  bytes: number;
  milliseconds: number;
  /** Null for answers from the cache, and for tokens that may not know. */
  cost: Cost | null;
  /** Remarks of the server, such as names that no log has. */
  notes: string[];
}

/** The number of the row at a place, by which it is known while others come. */
export const numberOf = (result: Result, row: number): number => (result.newest === undefined ? row : result.newest - row);

/** The place of a row with a number; null where the result does not have it. */
export function placeOf(result: Result, number: number | null): number | null {
  if (number === null) return null;
  const place = result.newest === undefined ? number : result.newest - number;
  return place >= 0 && place < result.rows ? place : null;
}

/** A record of logs is an array of one object; this is that object's type. */
export function recordOf(type: Type): Type | null {
  if (type.kind === "record") return type;
  return type.kind === "list" && type.item?.kind === "record" ? type.item : null;
}
