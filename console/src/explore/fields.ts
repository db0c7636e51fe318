// What is known of a granted table: its columns, and from a sample of its newest rows how often each field is filled and
// what stands in it.
import { run, type Parameters } from "../result/run";
import { fieldOf, text } from "../result/format";
import { dotted, type Path, type Step } from "../result/path";
import { recordOf, type Field, type Result, type Type, type Value } from "../result/types";
import { identifier } from "../sqlText";

const SAMPLE = 200;
const EXAMPLES = 6;
/** The longest example, in characters. */
const LONGEST = 80;

/** A field with a value that is no record. */
export interface FieldStatistics {
  path: string;
  at: Path;
  type: Type;
  filled: number;
  /** What stands there most often in the sample. */
  examples: Example[];
}

export interface Example {
  text: string;
  /** The value, where its text is all of it. */
  value: Value | undefined;
  rows: number;
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
  const found = new Map<string, FieldStatistics & { seen: Map<string, Example> }>();
  const visit = (at: Path, value: Value, type: Type): void => {
    const record = recordOf(type);
    if (record?.fields) {
      const inner = Array.isArray(value) ? (value[0] ?? null) : value;
      const steps: Step[] = type.kind === "list" ? [...at.steps, { element: 0, ofRecords: true }] : at.steps;
      for (const field of record.fields) visit({ ...at, steps: [...steps, { field: field.name }] }, fieldOf(inner, field.name), field.type);
      return;
    }
    const path = dotted(at);
    const known = found.get(path) ?? { path, at, type, filled: 0, examples: [], seen: new Map<string, Example>() };
    found.set(path, known);
    if (value === null) return;
    known.filled += 1;
    const whole = text(value, type, LONGEST + 1);
    const shown = whole.slice(0, LONGEST);
    const example = known.seen.get(shown) ?? { text: shown, value: shown === whole ? value : undefined, rows: 0 };
    known.seen.set(shown, { ...example, rows: example.rows + 1 });
  };
  result.columns.forEach((column, at) => {
    for (let row = 0; row < Math.max(1, result.rows); row += 1) visit({ column: column.name, steps: [] }, row < result.rows ? result.cell(row, at) : null, column.type);
  });
  const fields = [...found.values()].map(({ seen, ...field }) => ({ ...field, examples: [...seen.values()].sort((a, b) => b.rows - a.rows).slice(0, EXAMPLES) }));
  return { rows: result.rows, fields };
}
