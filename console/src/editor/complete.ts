// Completion: granted tables, their columns and the fields of records with the path that SQL or LQL wants, functions.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import functions from "../functions.json";
import { recordOf, type Field } from "../result/types";
import { identifier } from "../sqlText";
import { keywords } from "./languages";

/** What is known of the tables; a table whose columns are not known yet has none. */
export type Tables = ReadonlyMap<string, Field[]>;

const words: Completion[] = [...keywords.map((label) => ({ label, type: "keyword", boost: -1 })), ...functions.map((label) => ({ label, type: "function", apply: `${label}(`, boost: -2 }))];

/** The fields behind a path such as `metadata[SAFE_OFFSET(0)].request[SAFE_OFFSET(0)]`. */
function fieldsAt(columns: Field[], names: string[]): Field[] {
  return names.reduce<Field[]>((fields, name) => {
    const found = fields.find((field) => field.name.toLowerCase() === name.toLowerCase());
    return (found && recordOf(found.type)?.fields) ?? [];
  }, columns);
}

function option(field: Field, language: "sql" | "lql"): Completion {
  const isList = field.type.kind === "list" && recordOf(field.type) !== null;
  const name = language === "sql" ? identifier(field.name) : field.name;
  return { label: field.name, detail: field.type.name, type: "property", boost: 2, apply: language === "sql" && isList ? `${name}[SAFE_OFFSET(0)]` : name };
}

export function completeSql(tables: () => Tables) {
  return (context: CompletionContext): CompletionResult | null => {
    const path = context.matchBefore(/[\w`]+(?:\[[^\]]*\])?(?:\.[\w`]+(?:\[[^\]]*\])?)*\.\w*/);
    const known = tables();
    const text = context.state.doc.toString();
    const named = [...known].filter(([name]) => text.includes(name));
    const columns = (named.length > 0 ? named : []).flatMap(([, fields]) => fields);
    if (path) {
      const parts = path.text.split(".");
      const typed = parts.pop() ?? "";
      const names = parts.map((part) => part.replace(/\[.*$/, "").replace(/`/g, ""));
      // The first part may be a table or its alias.
      const fields = [fieldsAt(columns, names), fieldsAt(columns, names.slice(1))].find((found) => found.length > 0) ?? [];
      if (fields.length === 0) return null;
      return { from: context.pos - typed.length, options: fields.map((field) => option(field, "sql")), validFor: /^\w*$/ };
    }
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    const options = [...[...known.keys()].map((label) => ({ label, type: "class", detail: "table", apply: identifier(label), boost: 3 })), ...columns.map((field) => option(field, "sql")), ...words];
    return { from: word?.from ?? context.pos, options, validFor: /^\w*$/ };
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
    const fields = fieldsAt(columns, names.map((name, at) => (at === 0 && name === "m" ? "metadata" : name)));
    const options = fields.map((field) => ({ ...option(field, "lql"), apply: recordOf(field.type) ? `${field.name}.` : `${field.name}:` }));
    if (names.length === 0) options.push(...["f:", "s:", "t:last@1h", "c:count(*)", "c:group_by(t::minute)"].map((label) => ({ label, type: "keyword" }) as (typeof options)[number]));
    return { from: context.pos - typed.length, options, validFor: /^\w*$/ };
  };
}
