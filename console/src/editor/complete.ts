// Completion: what may stand at the place, tables and columns in sight, the fields of records with the path that SQL or LQL wants,
// functions, pipe operators.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { syntaxTree } from "@codemirror/language";
import functions from "../functions.json";
import { recordOf, type Field } from "../result/types";
import { identifier, isAggregate } from "../sqlText";
import { T } from "../text";
import { fieldsAt, visible, type Relation } from "./columns";
import { keywords, types } from "./languages";
import { scopeAt, type Scope } from "./scope";

/** What is known of the tables; a table whose columns are not known yet has none. */
export type Tables = ReadonlyMap<string, Field[]>;

/** The longest text whose columns are looked for at each key. */
const LONGEST = 100_000;
const FUNCTIONS = functions.map((label) => ({ label, type: "function", apply: `${label}(`, boost: isAggregateName(label) ? -3 : -2 }));
const COMMON = /^(COUNT|COUNTIF|SUM|AVG|MIN|MAX)$/;
const WINDOW = /^(.*RANK|CUME_DIST|NTILE|ROW_NUMBER|LAG|LEAD|GROUPING|PERCENTILE_.*|(FIRST|LAST|NTH)_VALUE)$/;
const AGGREGATES = FUNCTIONS.filter((one) => isAggregateName(one.label)).map((one) => ({ ...one, boost: COMMON.test(one.label) ? 9 : 8 }));
const SCALARS = FUNCTIONS.filter((one) => !isAggregateName(one.label) && !WINDOW.test(one.label));
const OPERATORS = Object.entries(T.pipes).map(([label, detail], at): Completion => ({ label, detail, type: "keyword", apply: `${label} `, boost: 60 - at }));
/** The words that a query begins with. */
const BEGINS = ["SELECT", "FROM", "WITH"];
const UNNEST: Completion = { label: "UNNEST", type: "function", apply: "UNNEST(", boost: 5 };
/** `WITH(a AS 1, a + 1)`, which is no function. */
const WITH_NAMES: Completion = { label: "WITH", displayLabel: "WITH(…)", detail: T.editor.withNames, type: "function", apply: "WITH(", boost: -2 };

function isAggregateName(name: string): boolean {
  const parts = name.split(".");
  return (parts.length === 1 || parts[0] === "HLL_COUNT") && isAggregate(parts.at(-1) ?? "");
}

const wordsOf = (words: string[], boost: number): Completion[] => words.map((label) => ({ label, type: "keyword", boost }));
const namedAs = (label: string, detail: string, boost: number): Completion => ({ label, detail, type: "class", apply: identifier(label), boost });

function option(field: Field, language: "sql" | "lql", isBare = false): Completion {
  const isList = !isBare && field.type.kind === "list" && recordOf(field.type) !== null;
  const name = language === "sql" ? identifier(field.name) : field.name;
  const apply = language === "sql" && isList ? `${name}[SAFE_OFFSET(0)]` : name;
  return { label: field.name, detail: field.type.name, type: "property", boost: 2, apply };
}

/** What may stand at a place, with what is meant most likely at the top. */
function options(scope: Scope): Completion[] {
  const { place, relations, tables, operator, isAfterValue } = scope;
  // Between values, words come before names.
  const boost = isAfterValue ? 6 : -1;
  const words = wordsOf(operator === "AGGREGATE" ? [...keywords, "GROUP AND ORDER BY"] : keywords, boost);
  const columns = (isBare = false): Completion[] => visible(relations).map((field) => option(field, "sql", isBare));
  const aliases = relations.flatMap(({ name }) => (name === null || tables.has(name.toLowerCase()) ? [] : [namedAs(name, T.editor.alias, 1)]));
  const named = [...tables.values()].map(({ name }) => namedAs(name, T.editor.table, place === "table" ? 6 : -1));
  switch (place) {
    case "operator":
      return OPERATORS;
    case "newName":
      return [];
    case "type":
      return wordsOf(types, 2);
    case "column":
      return isAfterValue ? words : columns(true);
    case "query":
      return [...wordsOf(BEGINS, 9), ...named, ...words.filter((word) => !BEGINS.includes(word.label)), ...columns(), ...FUNCTIONS];
    case "table":
      // The arrays of tables before it stand in FROM as well.
      return [...named, ...aliases, UNNEST, ...words.filter((word) => word.label !== UNNEST.label)];
    case "aggregate":
      if (isAfterValue) break;
      return [...AGGREGATES, ...columns(), ...aliases, ...words, ...SCALARS];
    case "key":
    case "value":
  }
  return [...columns(), ...aliases, ...named, ...words, ...FUNCTIONS, ...(isAfterValue ? [] : [WITH_NAMES])];
}

/** Names to be put between backticks, of which the first is there. */
function quoted({ place, relations, tables }: Scope, isClosed: boolean): Completion[] {
  const names = place === "table" ? [...tables.values()] : visible(relations);
  return names.map(({ name }) => ({ label: name, type: "class", apply: name.replace(/[`\\]/g, "\\$&") + (isClosed ? "" : "`") }));
}

/** The functions whose names begin with a name and a dot, without these. */
function membersOf(space: string): Completion[] {
  const found = FUNCTIONS.filter((one) => one.label.startsWith(space));
  return found.map(({ label, apply, type }) => ({ label: label.slice(space.length), apply: apply.slice(space.length), type }));
}

export function completeSql(tables: () => Tables) {
  return (context: CompletionContext): CompletionResult | null => {
    const node = syntaxTree(context.state).resolveInner(context.pos, -1);
    if (/^(String|LineComment|BlockComment)$/.test(node.name)) return null;
    const name = context.state.sliceDoc(node.from, node.to);
    const isClosed = name.length > 1 && name.endsWith("`");
    const isQuoted = node.name === "QuotedIdentifier" && !(isClosed && context.pos === node.to);
    const word = context.matchBefore(/\w+/);
    const from = isQuoted ? node.from : (word?.from ?? context.pos);
    const result = (found: Completion[]): CompletionResult | null => (found.length > 0 ? { from, options: found, validFor: /^\w*$/ } : null);
    // `(x).UPPER()` calls a function.
    if (context.matchBefore(/\)\s*\.\s*\w*/)) return result(SCALARS);
    const known = tables();
    const text = context.state.doc.toString();
    const scope = text.length > LONGEST ? null : scopeAt(text, from, known);
    // Where no table is named yet, or what is written is not understood: the columns of all tables that the text names.
    const mentioned = (): Relation[] => [...known].filter(([name]) => text.includes(name)).map(([name, columns]) => ({ name, columns }));
    const sight: Scope = scope ?? { place: "value", isAfterValue: false, relations: [], tables: new Map(), operator: "" };
    if (sight.relations.length === 0 && !/^(operator|newName|type|table)$/.test(sight.place)) sight.relations = mentioned();
    if (isQuoted) return { from: from + 1, options: quoted(sight, isClosed), validFor: /^[^`]*$/ };
    const path = context.matchBefore(/[\w`]+(?:\[[^\]]*\])*(?:\.[\w`]+(?:\[[^\]]*\])*)*\.\w*/);
    if (path) {
      const names = path.text.split(".").slice(0, -1).map((part) => part.replace(/\[.*$/, "").replace(/`/g, ""));
      const space = `${names.join(".").toUpperCase()}.`;
      if (space === "SAFE.") return result(SCALARS);
      const fields = fieldsAt(sight.relations, names).map((field) => option(field, "sql", sight.place === "table"));
      return result([...fields, ...membersOf(space)]);
    }
    // Where only few things may stand, they are offered before a letter is written.
    const isNarrow = sight.place === "operator" || (sight.place === "table" && known.size > 0) || (sight.place === "column" && !sight.isAfterValue);
    return word || context.explicit || isNarrow ? result(options(sight)) : null;
  };
}

export function completeLql(tables: () => Tables) {
  return (context: CompletionContext): CompletionResult | null => {
    const known = tables();
    const table = context.matchBefore(/(?:^|\s)(?:f|from):\w*/);
    if (table) {
      const typed = table.text.split(":")[1] ?? "";
      return { from: context.pos - typed.length, options: [...known.keys()].map((label) => ({ label, type: "class", detail: "table" })), validFor: /^\w*$/ };
    }
    const path = context.matchBefore(/[A-Za-z_][\w.]*/);
    if (!path && !context.explicit) return null;
    const chosen = /(?:^|\s)(?:f|from):(\w+)/.exec(context.state.doc.toString())?.[1];
    const columns = chosen ? (known.get(chosen) ?? []) : [...known.values()].flat();
    const names = (path?.text ?? "").split(".");
    const typed = names.pop() ?? "";
    const fields = fieldsAt([{ name: null, columns }], names.map((name, at) => (at === 0 && name === "m" ? "metadata" : name)));
    const options = fields.map((field) => ({ ...option(field, "lql"), apply: recordOf(field.type) ? `${field.name}.` : `${field.name}:` }));
    if (names.length === 0) options.push(...["f:", "s:", "t:last@1h", "c:count(*)", "c:group_by(t::minute)"].map((label) => ({ label, type: "keyword" }) as (typeof options)[number]));
    return { from: context.pos - typed.length, options, validFor: /^\w*$/ };
  };
}
