// A place in a record, and the conditions in SQL and LQL that a click on a value adds to the query.
import type { Type, Value } from "./types";
import { around, expressions, identifier, literal, withCondition, withRowCondition } from "../sqlText";

/** A step into a value: a field of a record, or an element of a list. */
export type Step = { field: string } | { element: number; ofRecords: boolean };

/** A column and the steps into it. */
export interface Path {
  column: string;
  steps: Step[];
}

/** The path as SQL writes it: `metadata[SAFE_OFFSET(0)].request[SAFE_OFFSET(0)].path`. `base` stands for the column. */
export function sqlPath(path: Path, base = identifier(path.column)): string {
  return path.steps.reduce((text, step) => ("field" in step ? `${text}.${identifier(step.field)}` : `${text}[SAFE_OFFSET(${step.element})]`), base);
}

/** The names of a path with dots between. */
export function dotted(path: Path): string {
  return [path.column, ...path.steps.flatMap((step) => ("field" in step ? [step.field] : []))].join(".");
}

function constant(value: Value, type: Type): string | null {
  switch (type.kind) {
    case "text":
      return literal(String(value));
    case "number":
    case "boolean":
      return typeof value === "number" && !Number.isFinite(value) ? null : String(value).toUpperCase();
    case "timestamp":
      return `TIMESTAMP_MICROS(${Math.round((value as number) * 1000)})`;
    case "date":
      return `DATE '${new Date(value as number).toISOString().slice(0, 10)}'`;
    case "datetime":
      return `DATETIME '${new Date(value as number).toISOString().replace("Z", "")}'`;
    default:
      return null;
  }
}

/** The condition that a value is there, or is not. Null where the value has no such condition. */
function conditionOf(path: Path, value: Value, type: Type, exclude: boolean, base = identifier(path.column)): string | null {
  if (value === null) return `${sqlPath(path, base)} IS ${exclude ? "NOT " : ""}NULL`;
  const text = constant(value, type);
  if (text === null) return null;
  const last = path.steps.at(-1);
  if (last && "element" in last) {
    const list = sqlPath({ ...path, steps: path.steps.slice(0, -1) }, base);
    return `${exclude ? "NOT " : ""}COALESCE(${text} IN UNNEST(${list}), FALSE)`;
  }
  return exclude ? `${sqlPath(path, base)} IS DISTINCT FROM ${text}` : `${sqlPath(path, base)} = ${text}`;
}

/** The statement with the condition that a value of its result is there, or is not. Null where the value has no such condition. */
export function filterSql(sql: string, path: Path, value: Value, type: Type, exclude: boolean): string | null {
  const known = expressions(sql);
  // Where the column is computed from several rows, the condition goes around the statement.
  const condition = conditionOf(path, value, type, exclude, known?.get(path.column));
  if (condition === null) return null;
  return known ? withCondition(sql, condition) : around(sql, condition);
}

/** The same of a value of the table that the statement reads, whatever it makes of its rows. */
export function filterRowsSql(sql: string, path: Path, value: Value, type: Type): string | null {
  const condition = conditionOf(path, value, type, false);
  return condition === null ? null : withRowCondition(sql, condition);
}

/** As filterSql, for LQL. */
export function filterLql(lql: string, path: Path, value: Value, type: Type, exclude: boolean): string | null {
  const name = dotted(path);
  if (!/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(name)) return null;
  let text: string;
  if (value === null) text = "NULL";
  else if (type.kind === "text") text = `"${String(value).replace(/["\\]/g, "\\$&")}"`;
  else if (type.kind === "number" || type.kind === "boolean") text = String(value);
  else if (type.kind === "timestamp") text = new Date(value as number).toISOString();
  else return null;
  const clause = `${exclude ? "-" : ""}${name.replace(/^metadata\./, "m.")}:${text}`;
  return `${lql.trim()} ${clause}`.trim();
}
