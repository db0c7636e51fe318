// The columns of sources, for completion in saved queries: asked for once, as soon as the text names the source.
import { useEffect, useRef, useState } from "preact/hooks";
import { json, segment, type Schemas } from "../api/client";
import type { Field, Type } from "../result/types";

/** The most sources whose columns are asked for. */
const MOST = 50;

/** A schema names fields by their paths with dots; this is the tree of them. */
export function columnsOf(schema: Record<string, string>): Field[] {
  const columns: Field[] = [];
  const records = new Map<string, Field[]>();
  for (const [path, name] of Object.entries(schema).sort(([a], [b]) => a.length - b.length)) {
    // A field may have dots in its own name: it belongs to the longest path that is a record.
    let dot = path.lastIndexOf(".");
    while (dot > 0 && !records.has(path.slice(0, dot))) dot = path.lastIndexOf(".", dot - 1);
    const fields: Field[] = [];
    (records.get(path.slice(0, dot)) ?? columns).push({ name: dot > 0 ? path.slice(dot + 1) : path, type: typeOf(name, fields) });
    if (name.includes("STRUCT")) records.set(path, fields);
  }
  return columns;
}

function typeOf(name: string, fields: Field[]): Type {
  const item = /^ARRAY<(.*)>$/.exec(name)?.[1];
  if (item !== undefined) return { kind: "list", name: item === "STRUCT" ? "RECORD" : name, item: typeOf(item, fields) };
  if (name === "STRUCT") return { kind: "record", name, fields };
  return { kind: /INT64|FLOAT64|NUMERIC/.test(name) ? "number" : "text", name };
}

/** The sources as tables, with the columns of those that a text names. */
export function useSources(sources: string[], text: string): ReadonlyMap<string, Field[]> {
  const [known, setKnown] = useState<ReadonlyMap<string, Field[]>>(new Map());
  const asked = useRef(new Set<string>());
  const named = sources.filter((name) => text.includes(name));
  useEffect(() => {
    for (const name of named) {
      if (asked.current.has(name) || asked.current.size >= MOST) continue;
      asked.current.add(name);
      const add = (schema: Record<string, string>): void => setKnown((before) => new Map([...before, [name, columnsOf(schema)]]));
      // Completion does without what cannot be read.
      json<Schemas["SourceSchema"]>(`/api/sources/${segment(name)}/schema`).then(add, () => undefined);
    }
  }, [named.join("\n")]);
  return new Map(sources.map((name) => [name, known.get(name) ?? []]));
}
