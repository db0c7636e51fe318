// What is known of a granted table: its columns, and from a sample of its newest rows how often each field is filled and
// what stands in it.
import { run, type Parameters } from "../result/run";
import { fieldOf, text } from "../result/format";
import { recordOf, type Field, type Result, type Type, type Value } from "../result/types";
import { identifier } from "../sqlText";

const SAMPLE = 200;
const EXAMPLES = 4;

/** A field with a value that is no record. */
export interface FieldStatistics {
  path: string;
  type: Type;
  filled: number;
  examples: string[];
}

export interface TableStatistics {
  rows: number;
  fields: FieldStatistics[];
}

/** The columns of a table, without reading a row. */
export async function columnsOf(endpoint: string, parameters: Parameters, table: string): Promise<Field[]> {
  return (await run(endpoint, { ...parameters, sql: `SELECT * FROM ${identifier(table)} LIMIT 0` })).columns;
}

/** Statistics of the newest rows within the parameters. */
export async function statisticsOf(endpoint: string, parameters: Parameters, table: string, columns: Field[]): Promise<TableStatistics> {
  const order = columns.some((column) => column.name === "timestamp") ? " ORDER BY timestamp DESC" : "";
  return statistics(await run(endpoint, { ...parameters, sql: `SELECT * FROM ${identifier(table)}${order} LIMIT ${SAMPLE}` }));
}

export function statistics(result: Result): TableStatistics {
  const found = new Map<string, FieldStatistics & { seen: Set<string> }>();
  const visit = (path: string, value: Value, type: Type): void => {
    const record = recordOf(type);
    if (record?.fields) {
      const inner = Array.isArray(value) ? (value[0] ?? null) : value;
      for (const field of record.fields) visit(`${path}.${field.name}`, fieldOf(inner, field.name), field.type);
      return;
    }
    const known = found.get(path) ?? { path, type, filled: 0, examples: [], seen: new Set<string>() };
    found.set(path, known);
    if (value === null) return;
    known.filled += 1;
    const shown = text(value, type, 80);
    if (known.examples.length < EXAMPLES && !known.seen.has(shown)) {
      known.seen.add(shown);
      known.examples.push(shown);
    }
  };
  result.columns.forEach((column, at) => {
    for (let row = 0; row < Math.max(1, result.rows); row += 1) visit(column.name, row < result.rows ? result.cell(row, at) : null, column.type);
  });
  return { rows: result.rows, fields: [...found.values()] };
}
