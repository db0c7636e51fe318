// The columns of what stands in a statement: of paths, of select lists, of PIVOT and UNPIVOT.
import { recordOf, type Field, type Type } from "../result/types";
import { aliasOf, endsValue, items, nameOf, namesIn, type Node } from "./tree";

/** A table in sight, with its alias. */
export interface Relation {
  name: string | null;
  columns: Field[];
  /** Its columns are known behind its alias only. */
  qualified?: boolean;
}

/** The type of what is computed: not known here. */
const COMPUTED: Type = { kind: "text", name: "" };
const INTEGER: Type = { kind: "number", name: "INT64" };
const COUNTS = /^(COUNT|COUNTIF|APPROX_COUNT_DISTINCT|ROW_NUMBER|RANK|DENSE_RANK|NTILE|LENGTH|ARRAY_LENGTH)$/;

export const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();
export const fieldOf = (fields: Field[], name: string): Field | undefined => fields.find((field) => isSame(field.name, name));

/** The columns that a name alone means, each once. */
export function visible(relations: Relation[]): Field[] {
  const found = new Map<string, Field>();
  for (const relation of relations) {
    if (relation.qualified) continue;
    for (const column of relation.columns) if (!found.has(column.name.toLowerCase())) found.set(column.name.toLowerCase(), column);
  }
  return [...found.values()];
}

/** The fields behind a path, whose first name may be an alias. */
export function fieldsAt(relations: Relation[], names: string[]): Field[] {
  const [first = "", ...rest] = names;
  const within = (fields: Field[], path: string[]): Field[] =>
    path.reduce<Field[]>((left, name) => recordOf(fieldOf(left, name)?.type ?? COMPUTED)?.fields ?? [], fields);
  const table = relations.find((relation) => relation.name !== null && isSame(relation.name, first));
  return table ? within(table.columns, rest) : within(visible(relations), names);
}

/** The type of a path with its subscripts; null for what is no path. */
export function typeOf(nodes: Node[], relations: Relation[]): Type | null {
  const first = nameOf(nodes[0]);
  if (first === null) return nodes.length === 1 && nodes[0]?.text === "[" ? literalType(nodes[0].inner ?? [], relations) : null;
  const table = relations.find((relation) => relation.name !== null && isSame(relation.name, first));
  let at = 1;
  let type: Type | undefined = fieldOf(visible(relations), first)?.type;
  if (table && nodes[1]?.text === ".") [type, at] = [fieldOf(table.columns, pathName(nodes[2]))?.type, 3];
  for (; at < nodes.length && type; at += 1) {
    const node = nodes[at];
    if (node?.text === ".") type = fieldOf(recordOf(type)?.fields ?? [], pathName(nodes[(at += 1)]))?.type;
    else type = node?.text === "[" ? type.item : undefined;
  }
  return type ?? null;
}

/** A name in a path, which may be a word of the language. */
const pathName = (node: Node | undefined): string => aliasOf(node) ?? node?.text ?? "";

/** The type of an array whose first element is written as a STRUCT with names. */
function literalType(inner: Node[], relations: Relation[]): Type | null {
  const struct = inner[0]?.word === "STRUCT" && inner[1]?.inner;
  if (!struct) return null;
  return { kind: "list", name: "ARRAY<STRUCT>", item: { kind: "record", name: "STRUCT", fields: outputs(struct, relations) } };
}

/** The table that an array is in FROM. */
export function elementsOf(type: Type | null, name: string | null): Relation {
  const record = type && recordOf(type);
  if (record?.fields) return { name, columns: record.fields };
  return { name: null, columns: name === null ? [] : [{ name, type: type?.item ?? COMPUTED }] };
}

export const offsetOf = (name: string): Relation => ({ name: null, columns: [{ name, type: INTEGER }] });

/** The columns of a list such as that of SELECT; those without a name are left out. */
export function outputs(nodes: Node[], relations: Relation[]): Field[] {
  return items(nodes).flatMap((item) => {
    // AGGREGATE may have an order behind each item.
    const end = item.findIndex((node) => /^(ASC|DESC|NULLS)$/.test(node.word));
    const list = end > 0 ? item.slice(0, end) : item;
    return starOf(list, relations) ?? named(list, relations);
  });
}

function named(item: Node[], relations: Relation[]): Field[] {
  const last = item.at(-1);
  const before = item.at(-2);
  const name = before?.text === "." || before?.word === "AS" ? aliasOf(last) : nameOf(last);
  if (name === null) return [];
  const isPath = item.length === 1 || before?.text === ".";
  if (!isPath && before?.word !== "AS" && !endsValue(before)) return [];
  const value = isPath ? item : item.slice(0, before?.word === "AS" ? -2 : -1);
  return [{ name, type: typeOf(value, relations) ?? (value.length === 2 && COUNTS.test(value[0]?.word ?? "") ? INTEGER : COMPUTED) }];
}

function without(fields: Field[], names: string[]): Field[] {
  const gone = new Set(names.map((name) => name.toLowerCase()));
  return fields.filter((field) => !gone.has(field.name.toLowerCase()));
}

/** The columns of `*` and `t.*`, with EXCEPT. */
function starOf(item: Node[], relations: Relation[]): Field[] | null {
  const star = item.findIndex((node) => node.text === "*");
  const isStar = star === 0 || (star === 2 && item[1]?.text === ".");
  if (!isStar || (item.length > star + 1 && !/^(EXCEPT|REPLACE)$/.test(item[star + 1]?.word ?? ""))) return null;
  const except = item.findIndex((node) => node.word === "EXCEPT");
  const all = star === 0 ? visible(relations) : fieldsAt(relations, [pathName(item[0])]);
  return without(all, except < 0 ? [] : namesIn(item[except + 1]?.inner ?? []));
}

/** What PIVOT or UNPIVOT makes of columns. */
export function pivoted(isPivot: boolean, columns: Field[], inner: Node[]): Field[] {
  const at = inner.findIndex((node) => node.word === "FOR");
  const list = inner.slice(at + 1).findIndex((node) => node.word === "IN") + at + 1;
  const values = inner[list + 1]?.inner;
  if (at < 0 || list <= at || !values) return [];
  const before = inner.slice(0, at);
  const key = inner.slice(at + 1, list);
  const left = without(columns, isPivot ? namesIn([...before, ...key]) : namesIn(values));
  if (!isPivot) return [...left, ...[...namesIn(before), ...namesIn(key)].map((name) => ({ name, type: COMPUTED }))];
  const aliases = items(before).map((item) => (item.at(-2)?.word === "AS" ? `${pathName(item.at(-1))}_` : ""));
  const names = items(values).map((item) => pathName(item.at(-1)).replace(/^(['"])(.*)\1$/, "$2"));
  return [...left, ...names.flatMap((name) => aliases.map((alias) => ({ name: alias + name, type: COMPUTED })))];
}

/** The relations after columns changed: an alias still means the row as it was. */
export function changed(relations: Relation[], change: (columns: Field[]) => Field[]): Relation[] {
  const before = relations.filter((one) => one.name !== null).map((one) => ({ ...one, qualified: true }));
  return [{ name: null, columns: change(visible(relations)) }, ...before];
}

/** The relations after SET, DROP or RENAME with what stands behind the word. */
export function afterChange(operator: string, nodes: Node[], relations: Relation[]): Relation[] {
  const list = items(nodes);
  const renamed = new Map(list.map((item) => [pathName(item[0]).toLowerCase(), pathName(item.at(-1))]));
  return changed(relations, (columns) =>
    columns.flatMap((column) => {
      const to = renamed.get(column.name.toLowerCase());
      if (to === undefined) return [column];
      if (operator === "DROP") return [];
      return [operator === "RENAME" ? { ...column, name: to } : { ...column, type: COMPUTED }];
    }),
  );
}
