// What is in sight at a place of a statement: its tables and columns, and what may stand there. A text that is being written is seldom
// whole, so nothing here fails: what is not understood has no columns.
import type { Field } from "../result/types";
import { afterChange, elementsOf, offsetOf, outputs, pivoted, typeOf, visible, type Relation } from "./columns";
import { aliasOf, contains, endsValue, items, nameOf, split, tree, type Node } from "./tree";

/** What may stand at a place: a query, a pipe operator, a table, an aggregate, a key of groups, the name of a column alone, a new name, a
 *  type, or a value. */
export type Place = "query" | "operator" | "table" | "aggregate" | "key" | "column" | "newName" | "type" | "value";

export interface Scope {
  place: Place;
  /** Whether a value has just ended, so that a word of the language comes next. */
  isAfterValue: boolean;
  relations: Relation[];
  /** The tables that FROM may name, by their names in lower case: the granted ones and those of WITH. */
  tables: ReadonlyMap<string, { name: string; columns: Field[] }>;
  /** The pipe operator that the place is in. */
  operator: string;
}

/** What is around a query. */
interface Around {
  tables: Scope["tables"];
  /** What a subquery sees of the query that it stands in. */
  outer: Relation[];
}

const CLAUSES = /^(SELECT|FROM|WHERE|GROUP|HAVING|QUALIFY|WINDOW|ORDER|LIMIT)$/;
const JOINS = /^(JOIN|INNER|LEFT|RIGHT|FULL|OUTER|CROSS|NATURAL)$/;
const CHANGES = /^(SET|DROP|RENAME)$/;
/** Words behind a table that are not its alias. */
const BEHIND_TABLE = /^(PIVOT|UNPIVOT|QUALIFY|TABLESAMPLE)$/;

/** What is in sight where a word begins. */
export function scopeAt(sql: string, at: number, granted: ReadonlyMap<string, Field[]>): Scope {
  // Behind the dot of a path that is being written, the next word would be taken for its field.
  const text = sql[at - 1] === "." && !/\w/.test(sql[at] ?? "") ? `${sql.slice(0, at)}_${sql.slice(at)}` : sql;
  const tables = new Map([...granted].map(([name, columns]) => [name.toLowerCase(), { name, columns }]));
  const found = new Finder(at, tables);
  const statement = split(tree(text), (node) => node.text === ";").find((part) => at <= part.to);
  found.query(statement?.nodes ?? [], { tables, outer: [] }, true);
  return found.scope;
}

const isCall = (nodes: Node[], at: number): boolean => nodes[at + 1]?.text === "(";
const isSide = (nodes: Node[], at: number): boolean => /^(LEFT|RIGHT)$/.test(nodes[at]?.word ?? "");
/** Whether a word belongs to a join: LEFT and RIGHT are functions as well. */
const isJoin = (nodes: Node[], at: number): boolean => JOINS.test(nodes[at]?.word ?? "") && !(isSide(nodes, at) && isCall(nodes, at));

function isQuery(nodes: Node[]): boolean {
  const word = nodes[0]?.word;
  const isPiped = nodes[0]?.text === "(" && nodes[1]?.text === "|>";
  return word === "SELECT" || word === "FROM" || (word === "WITH" && !isCall(nodes, 0)) || isPiped;
}

/** Whether UNION, INTERSECT or EXCEPT stands between two queries: behind `*`, EXCEPT has its brackets at once. */
const isBetween = (nodes: Node[], at: number): boolean =>
  /^(UNION|INTERSECT)$/.test(nodes[at]?.word ?? "") || (nodes[at]?.word === "EXCEPT" && !isCall(nodes, at));

/** The most queries that are read: those of WITH RECURSIVE are read twice, and so are those within them. */
const MOST_QUERIES = 500;

class Finder {
  scope: Scope;
  private queries = 0;

  constructor(
    private readonly at: number,
    tables: Scope["tables"],
  ) {
    this.scope = { place: "query", isAfterValue: false, relations: [], tables, operator: "" };
  }

  private mark(place: Place, relations: Relation[], around: Around, operator = "", isAfterValue = false): void {
    this.scope = { place, isAfterValue, relations: [...relations, ...around.outer], tables: around.tables, operator };
  }

  /** The nodes before the place. */
  private before(nodes: Node[]): Node[] {
    return nodes.filter((node) => node.start < this.at);
  }

  /** The columns of a query. What is in sight is noted on the way, where the place is in it. */
  query(nodes: Node[], around: Around, isHere: boolean): Field[] {
    if ((this.queries += 1) > MOST_QUERIES) return [];
    const parts = split(nodes, (node) => node.text === "|>");
    const inPart = (from: number, to: number): boolean => isHere && from <= this.at && this.at <= to;
    let state: { relations: Relation[]; around: Around } = { relations: [], around };
    for (const [number, part] of parts.entries()) {
      const here = inPart(part.from, part.to);
      state = number === 0 ? this.first(part.nodes, around, here) : this.operator(part.nodes, state.relations, state.around, here);
    }
    return visible(state.relations);
  }

  /** What stands before the first pipe. */
  private first(nodes: Node[], around: Around, isHere: boolean): { relations: Relation[]; around: Around } {
    let [rest, own] = [nodes, around];
    if (nodes[0]?.word === "WITH" && !isCall(nodes, 0)) ({ rest, around: own } = this.tables(nodes.slice(1), around, isHere));
    const isNamed = isHere && rest !== nodes && rest.length === 0;
    const parts = split(rest, (_, at) => isBetween(rest, at));
    const relations = parts.map((part) => {
      const here = isHere && !isNamed && part.from <= this.at && this.at <= part.to;
      const start = part.nodes.findIndex((node) => node.inner !== undefined || CLAUSES.test(node.word));
      // Within WITH, its tables were noted.
      const isWithin = rest !== nodes && part === parts[0] && this.at < (part.nodes[0]?.start ?? Infinity);
      return this.select(part.nodes.slice(Math.max(0, start)), own, here && !isWithin);
    });
    const [only = [], ...others] = relations;
    return { relations: others.length > 0 ? [{ name: null, columns: visible(only) }] : only, around: own };
  }

  /** The tables of WITH. What is left is what stands behind them. */
  private tables(nodes: Node[], around: Around, isHere: boolean): { rest: Node[]; around: Around } {
    const isRecursive = nodes[0]?.word === "RECURSIVE";
    const known = new Map(around.tables);
    const own = { ...around, tables: known };
    let at = isRecursive ? 1 : 0;
    if (isHere) this.mark("newName", [], own);
    while (nameOf(nodes[at]) !== null && nodes[at + 1]?.word === "AS" && nodes[at + 2]?.inner) {
      const name = nameOf(nodes[at]) ?? "";
      const bracket = nodes[at + 2] as Node;
      // A recursive table has the columns of its first query, which does not read it.
      if (isRecursive) known.set(name.toLowerCase(), { name, columns: this.query(bracket.inner ?? [], own, false) });
      const columns = this.query(bracket.inner ?? [], { ...own, tables: new Map(known) }, isHere && contains(bracket, this.at));
      known.set(name.toLowerCase(), { name, columns });
      at += 3;
      const comma = nodes[at]?.text === "," ? (nodes[at] as Node) : null;
      if (isHere && (comma ?? bracket).end <= this.at) this.mark(comma ? "newName" : "query", [], own);
      if (!comma) return { rest: nodes.slice(at), around: own };
      at += 1;
    }
    // The last one is not written yet.
    while (at < nodes.length && !/^(SELECT|FROM)$/.test(nodes[at]?.word ?? "")) at += 1;
    return { rest: nodes.slice(at), around: own };
  }

  /** One SELECT, FROM or query in brackets. */
  private select(nodes: Node[], around: Around, isHere: boolean): Relation[] {
    const head = nodes[0];
    if (isHere) this.mark("query", [], around);
    if (!head) return [];
    if (head.inner) {
      const columns = this.query(head.inner, around, isHere && contains(head, this.at));
      if (isHere && head.end <= this.at) this.mark("value", [{ name: null, columns }], around, "", true);
      return [{ name: nodes[1]?.word === "AS" ? aliasOf(nodes[2]) : nameOf(nodes[1]), columns }];
    }
    // `IS DISTINCT FROM` is no clause.
    const isDistinct = (at: number): boolean => nodes[at]?.word === "FROM" && nodes[at - 1]?.word === "DISTINCT";
    const clauses = split(nodes, (node, at) => CLAUSES.test(node.word) && !isDistinct(at)).slice(1);
    const word = (from: number): string => nodes.find((node) => node.end === from)?.word ?? "";
    const isIn = (part: { from: number; to: number }): boolean => isHere && part.from <= this.at && this.at <= part.to;
    const from = clauses.find((part) => word(part.from) === "FROM");
    const relations = from ? this.from(from.nodes, [], around, isIn(from)) : [];
    const list = clauses.find((part) => word(part.from) === "SELECT");
    const columns = list ? outputs(list.nodes.filter((node) => !/^(DISTINCT|ALL)$/.test(node.word)), relations) : [];
    for (const part of clauses) {
      const name = word(part.from);
      if (name === "FROM" || !isIn(part)) continue;
      // Behind the list, its names are known too.
      const own = name === "SELECT" || name === "WHERE" ? relations : [...relations, { name: null, columns }];
      this.value(part.nodes, own, around, name === "GROUP" && this.before(part.nodes).length > 0 ? "key" : "value");
    }
    return list ? [{ name: null, columns }] : relations;
  }

  /** The tables of FROM, or those after a JOIN beside those that are known. */
  private from(nodes: Node[], known: Relation[], around: Around, isHere: boolean): Relation[] {
    const found = [...known];
    if (isHere) this.mark("table", found, around);
    for (let at = 0; at < nodes.length; ) {
      const node = nodes[at] as Node;
      if (node.word === "ON") while (at < nodes.length && nodes[at]?.text !== "," && !isJoin(nodes, at)) at += 1;
      else if (node.word === "USING") at += 2;
      else if (node.text === "," || isJoin(nodes, at)) at += 1;
      else at = this.table(nodes, at, found, around, isHere);
    }
    if (isHere) this.inFrom(nodes, found, around);
    return found;
  }

  /** Adds the table that begins at a node. Gives the place behind it. */
  private table(nodes: Node[], start: number, found: Relation[], around: Around, isHere: boolean): number {
    const node = nodes[start] as Node;
    let at = start + 1;
    let columns: Field[] = [];
    let array: Node[] | null = null;
    let own: string | null = null;
    if (node.inner && !isQuery(node.inner)) {
      found.push(...this.from(node.inner, [], around, isHere && contains(node, this.at)));
      return at;
    }
    if (node.inner) {
      columns = this.query(node.inner, around, isHere && contains(node, this.at));
    } else if (node.word === "UNNEST") {
      array = nodes[at]?.inner ?? [];
      at += 1;
    } else {
      if (nameOf(node) === null) return at;
      while (nodes[at]?.text === ".") at += 2;
      const path = nodes.slice(start, at);
      const named = path.map((one) => nameOf(one) ?? one.text).join("");
      columns = around.tables.get(named.toLowerCase())?.columns ?? [];
      if (path.length > 1 && !around.tables.has(named.toLowerCase())) array = path;
      own = nameOf(path.at(-1));
    }
    const isPivot = nodes[at]?.word === "PIVOT";
    if (isPivot || nodes[at]?.word === "UNPIVOT") {
      const inner = nodes.slice(at).find((one) => one.inner);
      columns = pivoted(isPivot, columns, inner?.inner ?? []);
      at = inner ? nodes.indexOf(inner) + 1 : at + 1;
    }
    const isAs = nodes[at]?.word === "AS";
    if (isAs) at += 1;
    const alias = isAs ? aliasOf(nodes[at]) : BEHIND_TABLE.test(nodes[at]?.word ?? "") || isJoin(nodes, at) ? null : nameOf(nodes[at]);
    if (alias !== null) at += 1;
    found.push(array ? elementsOf(typeOf(array, [...found, ...around.outer]), alias) : { name: alias ?? own, columns });
    if (nodes[at]?.word === "WITH" && nodes[at + 1]?.word === "OFFSET") {
      const isNamed = nodes[at + 2]?.word === "AS";
      at += isNamed ? 3 : 2;
      const name = isNamed ? aliasOf(nodes[at]) : nameOf(nodes[at]);
      found.push(offsetOf(name ?? "offset"));
      if (name !== null) at += 1;
    }
    return at;
  }

  private inFrom(nodes: Node[], found: Relation[], around: Around): void {
    const before = this.before(nodes);
    const last = before.at(-1);
    const since = before.findLastIndex((node, at) => node.text === "," || isJoin(nodes, at));
    const clause = before.slice(since + 1).find((node) => node.word === "ON");
    if (contains(last, this.at)) {
      const opener = before.at(-2);
      const isTable = !opener || opener.text === "," || isJoin(before, before.length - 2);
      // What is in sight of a query in FROM was noted when it was read.
      if (isTable && !clause) return (last?.inner ?? []).length === 0 ? this.mark("table", found, around) : undefined;
      return this.within(before, found, around, opener?.word === "USING" ? "column" : "value");
    }
    if (!last || last.text === "," || isJoin(before, before.length - 1)) return this.mark("table", found, around);
    this.value(clause ? nodes.slice(nodes.indexOf(clause) + 1) : nodes, found, around, "value");
  }

  /** Notes a place in a list of values, or deeper in it. */
  private value(nodes: Node[], relations: Relation[], around: Around, place: Place, operator = ""): void {
    const before = this.before(nodes);
    const last = before.at(-1);
    if (contains(last, this.at)) return this.within(before, relations, around, "value");
    const isNew = last?.word === "AS" && before.length > 1;
    this.mark(isNew ? "newName" : place, relations, around, operator, !isNew && endsValue(last));
  }

  /** Notes a place in the brackets that `before` ends with. */
  private within(before: Node[], relations: Relation[], around: Around, place: Place): void {
    const inner = before.at(-1)?.inner ?? [];
    const opener = before.at(-2)?.word ?? "";
    const own = { ...around, outer: [...relations, ...around.outer] };
    if (isQuery(inner)) return void this.query(inner, own, true);
    const inside = this.before(inner);
    if (inside.length === 0 && /^(EXISTS|ARRAY|ALL|DISTINCT)$/.test(opener) && before.at(-1)?.text === "(") return this.mark("query", [], own);
    if (/^(SAFE_)?CAST$/.test(opener) && inside.some((node) => node.word === "AS")) return this.mark("type", relations, around);
    if (opener !== "WITH") return this.value(inner, relations, around, place);
    // WITH(a AS 1, a + 1): the names before are values.
    const names = items(inside).slice(0, -1).flatMap((item) => (item[1]?.word === "AS" ? (nameOf(item[0]) ?? []) : []));
    const columns = names.map((name) => ({ name, type: { kind: "text" as const, name: "" } }));
    this.value(inner, [{ name: null, columns }, ...relations], around, place);
    // `AS` is before a value here, not before a name.
    if (this.scope.place === "newName") this.scope = { ...this.scope, place: "value" };
  }

  /** What a pipe operator makes of the relations before it. */
  private operator(nodes: Node[], relations: Relation[], around: Around, isHere: boolean): { relations: Relation[]; around: Around } {
    const name = nodes[0]?.word ?? "";
    const rest = nodes.slice(1);
    if (isHere) this.inOperator(name, nodes, relations, around);
    const table = (columns: Field[]): Relation[] => [{ name: null, columns }];
    if (isJoin(nodes, 0)) return { relations: this.from(nodes, relations, around, isHere && this.before(nodes).length > 0), around };
    if (CHANGES.test(name)) return { relations: afterChange(name, rest, relations), around };
    if (name === "WITH") return { relations, around: this.tables(rest, around, isHere && this.before(nodes).length > 0).around };
    if (name === "SELECT") return { relations: table(outputs(rest.filter((node) => !/^(DISTINCT|ALL)$/.test(node.word)), relations)), around };
    if (name === "EXTEND" || name === "WINDOW") return { relations: [...relations, ...table(outputs(rest, relations))], around };
    if (name === "AS") return { relations: [{ name: aliasOf(rest[0]), columns: visible(relations) }], around };
    if (name === "AGGREGATE") {
      const at = rest.findIndex((node) => node.word === "GROUP");
      const [list, keys] = at < 0 ? [rest, []] : [rest.slice(0, at), rest.slice(at + 1).filter((node) => !/^(AND|ORDER|BY)$/.test(node.word))];
      return { relations: table([...outputs(keys, relations), ...outputs(list, relations)]), around };
    }
    if (name === "PIVOT" || name === "UNPIVOT") {
      const inner = nodes.find((node) => node.inner)?.inner ?? [];
      return { relations: table(pivoted(name === "PIVOT", visible(relations), inner)), around };
    }
    return { relations: /^(UNION|INTERSECT|EXCEPT)$/.test(name) ? table(visible(relations)) : relations, around };
  }

  private inOperator(name: string, nodes: Node[], relations: Relation[], around: Around): void {
    const before = this.before(nodes);
    const last = before.at(-1);
    if (!last) return this.mark("operator", relations, around);
    const isFirst = last === nodes[0] || last.text === ",";
    if (name === "AS") return this.mark("newName", relations, around, name);
    if (/^(UNION|INTERSECT|EXCEPT)$/.test(name) && contains(last, this.at)) return void this.query(last.inner ?? [], around, true);
    if ((name === "PIVOT" || name === "UNPIVOT") && contains(last, this.at)) return this.inPivot(name, last.inner ?? [], relations, around);
    if (name === "DROP" || (isFirst && CHANGES.test(name))) return this.mark("column", relations, around, name, !isFirst);
    if (name !== "AGGREGATE") return this.value(nodes.slice(1), relations, around, "value", name);
    const group = before.findIndex((node) => node.word === "GROUP");
    const isKey = group >= 0 && before.slice(group).some((node) => node.word === "BY");
    this.value(isKey ? nodes.slice(group + 1) : nodes.slice(1), relations, around, isKey ? "key" : "aggregate", isKey ? "" : name);
  }

  private inPivot(name: string, inner: Node[], relations: Relation[], around: Around): void {
    const before = this.before(inner);
    const isAggregate = name === "PIVOT" && !before.some((node) => node.word === "FOR");
    this.value(inner, relations, around, isAggregate ? "aggregate" : "column");
    if (name === "UNPIVOT" && !before.some((node) => node.word === "IN")) this.mark("newName", relations, around, "", endsValue(before.at(-1)));
  }
}
