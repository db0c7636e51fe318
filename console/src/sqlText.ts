// What the console must know of a statement in SQL to add a condition to it or to count its rows over time: where the
// clauses of its outermost SELECT lie. Everything else is the server's to understand.

export interface Token {
  text: string;
  start: number;
  end: number;
  /** How many brackets are open before it. */
  depth: number;
  kind: "word" | "quoted" | "text" | "sign";
}

const PATTERN = /--[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|[rRbB]{0,2}(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`[^`]*`|[A-Za-z_@][\w]*|\d[\w.]*|[^\s]/g;

export function tokens(sql: string): Token[] {
  const found: Token[] = [];
  let depth = 0;
  for (const match of sql.matchAll(PATTERN)) {
    const text = match[0];
    if (text.startsWith("--") || text.startsWith("#") || text.startsWith("/*")) continue;
    if (text === ")" || text === "]") depth -= 1;
    const kind = text.startsWith("`") ? "quoted" : /["']$/.test(text) && text.length > 1 ? "text" : /^[A-Za-z_@]/.test(text) ? "word" : "sign";
    found.push({ text, start: match.index, end: match.index + text.length, depth, kind });
    if (text === "(" || text === "[") depth += 1;
  }
  return found;
}

const CLAUSES = ["SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET"] as const;
type Clause = (typeof CLAUSES)[number];

/** The outermost SELECT of a statement. */
export interface Select {
  sql: string;
  /** The start of each clause's keyword, and the end of the clause. */
  clauses: Partial<Record<Clause, { start: number; body: number; end: number }>>;
  /** `WITH ...` before the SELECT, if any. */
  head: string;
}

/** The clauses of a statement; null where it is not one plain SELECT, such as with UNION. */
export function select(sql: string): Select | null {
  const all = tokens(sql);
  while (all.at(-1)?.text === ";") all.pop();
  const end = all.at(-1)?.end ?? 0;
  const outer = all.filter((token) => token.depth === 0);
  const words = outer.map((token) => (token.kind === "word" ? token.text.toUpperCase() : ""));
  if (words.some((word) => word === "UNION" || word === "INTERSECT")) return null;
  const first = words.indexOf("SELECT");
  if (first < 0 || (words[0] !== "SELECT" && words[0] !== "WITH")) return null;
  const clauses: Select["clauses"] = {};
  let open: Clause | null = null;
  for (let at = first; at < outer.length; at += 1) {
    const token = outer[at] as Token;
    const word = words[at] as Clause;
    // EXCEPT between two SELECTs is a set operation; after a star it is part of the list.
    if (token.kind !== "word" || !CLAUSES.includes(word) || outer[at - 1]?.text === ".") continue;
    if (word === "SELECT" && clauses.SELECT) return null;
    if (word === "OFFSET" && outer[at - 1]?.text.toUpperCase() === "WITH") continue;
    if (clauses[word]) continue;
    // `IS DISTINCT FROM` is no clause.
    if (word === "FROM" && words[at - 1] === "DISTINCT") continue;
    // A comment behind the last word does not belong to the clause: what is added may stand on its line.
    if (open) (clauses[open] as { end: number }).end = all.findLast((one) => one.end <= token.start)?.end ?? token.start;
    clauses[word] = { start: token.start, body: token.end, end };
    open = word;
  }
  return { sql, clauses, head: sql.slice(0, (outer[first] as Token).start) };
}

/** The statement as a table of another one. */
export function around(sql: string, condition: string): string {
  const all = tokens(sql);
  while (all.at(-1)?.text === ";") all.pop();
  return `SELECT *\nFROM (\n${sql.slice(0, all.at(-1)?.end ?? 0)}\n)\nWHERE ${condition}`;
}

/** The text of a clause without its keyword. */
export function body(select: Select, clause: Clause): string | null {
  const found = select.clauses[clause];
  return found ? select.sql.slice(found.body, found.end).trim() : null;
}

/** The statement with one more condition on its rows. */
export function withCondition(sql: string, condition: string): string {
  const found = select(sql);
  if (!found?.clauses.FROM) return around(sql, condition);
  const where = found.clauses.WHERE;
  if (where) {
    const old = body(found, "WHERE") ?? "";
    const isOr = tokens(old).some((token) => token.depth === 0 && token.text.toUpperCase() === "OR");
    return `${sql.slice(0, where.start)}WHERE ${isOr ? `(${old})` : old}\n  AND ${condition}${sql.slice(where.end)}`;
  }
  const at = found.clauses.FROM.end;
  return `${sql.slice(0, at)}\nWHERE ${condition}${sql.slice(at)}`;
}

const RESERVED = new Set("ALL AND ANY ARRAY AS ASC AT BETWEEN BY CASE CAST CROSS CURRENT DEFAULT DESC DISTINCT ELSE END EXCEPT EXISTS FALSE FOR FROM FULL GROUP GROUPING HAVING IF IN INNER INTERSECT INTERVAL INTO IS JOIN LEFT LIKE LIMIT NATURAL NOT NULL ON OR ORDER OUTER OVER PARTITION RANGE RIGHT ROWS SELECT SET STRUCT THEN TO TRUE UNION UNNEST USING WHEN WHERE WINDOW WITH".split(" "));

/** A name as SQL writes it. */
export function identifier(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) && !RESERVED.has(name.toUpperCase()) ? name : `\`${name.replace(/[`\\]/g, "\\$&")}\``;
}

/** A text as SQL writes it. */
export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&").replace(/\n/g, "\\n").replace(/\r/g, "\\r").replace(/\t/g, "\\t")}'`;
}

const AGGREGATE = /^(COUNT|COUNTIF|SUM|AVG|MIN|MAX|ANY_VALUE|STRING_AGG|ARRAY_AGG|LOGICAL_(AND|OR)|BIT_(AND|OR|XOR)|STDDEV.*|VAR.*|APPROX_.*|CORR|COVAR_.*|.*_AGG|M(IN|AX)_BY)$/i;

/** The expression of each column of a SELECT, by the column's name, where a condition may use it. Null where none may. */
export function expressions(sql: string): Map<string, string> | null {
  const found = select(sql);
  const list = found && body(found, "SELECT");
  if (!found || !list || found.clauses.GROUP || found.clauses.HAVING || found.clauses.QUALIFY || /^DISTINCT\b/i.test(list)) return null;
  const map = new Map<string, string>();
  const all = tokens(list);
  if (all.some((token, at) => token.kind === "word" && (token.text.toUpperCase() === "OVER" || (AGGREGATE.test(token.text) && all[at + 1]?.text === "(")))) return null;
  let start = 0;
  const ends = [...all.filter((token) => token.depth === 0 && token.text === ",").map((token) => token.start), list.length];
  for (const end of ends) {
    const item = all.filter((token) => token.start >= start && token.end <= end && token.text !== ",");
    const last = item.at(-1);
    if (last && last.text !== "*") {
      const name = last.text.replace(/^`|`$/g, "");
      const as = item.at(-2);
      const isNamed = as?.text.toUpperCase() === "AS";
      map.set(name, list.slice(item[0]?.start, isNamed ? as.start : last.end).trim());
    }
    start = end + 1;
  }
  return map;
}

/** The one table that a statement reads, if that is all it reads. */
export function onlyTable(sql: string): string | null {
  const found = select(sql);
  const from = found && body(found, "FROM");
  if (!from || found.head.trim()) return null;
  const parts = tokens(from);
  const name = parts[0];
  const isPlain = parts.length === 1 || (parts.length === 3 && parts[1]?.text.toUpperCase() === "AS") || (parts.length === 2 && parts[1]?.kind === "word");
  return name && isPlain && name.kind !== "sign" && name.kind !== "text" ? name.text.replace(/^`|`$/g, "") : null;
}

/** A saved query with another statement over its granted tables in place of its own. Null where it has no such tables. */
export function overGrants(saved: string, sql: string): string | null {
  const grants = select(saved)?.head.trim();
  if (!grants) return null;
  const all = tokens(sql);
  while (all.at(-1)?.text === ";") all.pop();
  const [first, last] = [all[0], all.at(-1)];
  if (!first || !last) return null;
  // CTEs of the statement's own come after the granted tables.
  const isWith = first.text.toUpperCase() === "WITH";
  return isWith ? `${grants},\n${sql.slice(first.end, last.end).trim()}` : `${grants}\n${sql.slice(0, last.end)}`;
}

/** A statement as it can be followed, and how many rows it asks for. The newest rows come first anyway: `ORDER BY timestamp DESC` and
 *  `LIMIT` are left out, every other order is left for the server to refuse. */
export function followed(sql: string): { sql: string; rows: number | null } {
  const found = select(sql);
  const { ORDER: order, LIMIT: limit, OFFSET: offset } = found?.clauses ?? {};
  const isNewest = order === undefined || /^BY\s+`?timestamp`?\s+DESC$/i.test(sql.slice(order.body, order.end).trim());
  const isNumber = limit === undefined || /^\d+$/.test(sql.slice(limit.body, limit.end).trim());
  const first = order ?? limit;
  const last = limit ?? order;
  if (!first || !last || !isNewest || !isNumber || offset) return { sql, rows: null };
  return { sql: sql.slice(0, first.start).trimEnd() + sql.slice(last.end), rows: limit ? Number(sql.slice(limit.body, limit.end)) : null };
}
