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

const PATTERN = /--[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|[rRbB]{0,2}(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`[^`]*`|[A-Za-z_@][\w]*|\d[\w.]*|\|>|[^\s]/g;

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

/** The clauses of a statement; null where it is not one plain SELECT, such as with UNION or pipes. */
export function select(sql: string): Select | null {
  const all = tokens(sql);
  while (all.at(-1)?.text === ";") all.pop();
  const end = all.at(-1)?.end ?? 0;
  const outer = all.filter((token) => token.depth === 0);
  const words = outer.map((token) => (token.kind === "word" ? token.text.toUpperCase() : ""));
  if (words.some((word) => word === "UNION" || word === "INTERSECT") || outer.some((token) => token.text === "|>")) return null;
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

/** What stands between the pipes of a statement, with its place; one part where there are none. */
function pipeline(sql: string): { start: number; end: number; words: string[]; text: string }[] {
  const all = tokens(sql);
  while (all.at(-1)?.text === ";") all.pop();
  const parts: Token[][] = [[]];
  const starts = [0];
  for (const token of all) {
    if (token.depth > 0 || token.text !== "|>") {
      parts.at(-1)?.push(token);
      continue;
    }
    parts.push([]);
    starts.push(token.start);
  }
  return parts.map((part, at) => {
    // Nothing stands behind a pipe that has just been written: the part ends before it.
    const pipe = starts[at] ?? 0;
    const [start, end] = [part[0]?.start ?? pipe, part.at(-1)?.end ?? pipe];
    return { start: pipe, end, words: part.filter((token) => token.depth === 0).map((token) => token.text.toUpperCase()), text: sql.slice(start, end) };
  });
}

/** Operators that leave each row as it is or give it other columns. */
const ROW_BY_ROW = new Set(["EXTEND", "SET", "RENAME", "DROP", "SELECT", "AS", "ORDER"]);

/** The rows of tables that a statement takes, before it groups or cuts them: its tables, its condition, and what stands before. Null
 *  where that cannot be said. */
export function rows(sql: string): { head: string; from: string; where: string | null } | null {
  const found = select(sql);
  if (found) {
    const from = body(found, "FROM");
    return from ? { head: found.head, from, where: body(found, "WHERE") } : null;
  }
  const [first, ...operators] = pipeline(sql);
  const head = first && headOf(sql);
  if (head === undefined || !first || first.words.includes("SELECT")) return null;
  const from = sql.slice(head.length, first.end).replace(/^FROM/i, "").trim();
  const conditions: string[] = [];
  let isChanged = false;
  for (const { words, text } of operators) {
    const word = words[0] ?? "";
    if (word === "AGGREGATE" || word === "LIMIT") break;
    if (ROW_BY_ROW.has(word) && words[1] !== "DISTINCT") isChanged = true;
    // A condition on other columns is none on the rows of the tables.
    else if (word === "WHERE" && !isChanged) conditions.push(text.slice("WHERE".length).trim());
    else return null;
  }
  const each = conditions.map((one) => (conditions.length > 1 && isOr(one) ? `(${one})` : one));
  return { head, from, where: each.length > 0 ? each.join("\n  AND ") : null };
}

const isOr = (condition: string): boolean => tokens(condition).some((token) => token.depth === 0 && token.text.toUpperCase() === "OR");

/** What stands before the query itself: comments and WITH. */
export function headOf(sql: string): string | undefined {
  const first = tokens(sql).find((token) => token.depth === 0 && token.kind === "word" && /^(SELECT|FROM)$/i.test(token.text));
  return first && sql.slice(0, first.start);
}

/** The statement as a table of another one; behind pipes, the condition is one more operator. */
export function around(sql: string, condition: string): string {
  const parts = pipeline(sql);
  const text = sql.slice(0, parts.at(-1)?.end);
  const isPiped = parts.length > 1 || !parts[0]?.words.includes("SELECT");
  return isPiped ? `${text}\n|> WHERE ${condition}` : `SELECT *\nFROM (\n${text}\n)\nWHERE ${condition}`;
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
    return `${sql.slice(0, where.start)}WHERE ${isOr(old) ? `(${old})` : old}\n  AND ${condition}${sql.slice(where.end)}`;
  }
  const at = found.clauses.FROM.end;
  return `${sql.slice(0, at)}\nWHERE ${condition}${sql.slice(at)}`;
}

/** The statement with one more condition on the rows of its tables: behind FROM, before pipes change them. */
export function withRowCondition(sql: string, condition: string): string {
  const [first, ...operators] = pipeline(sql);
  if (!first || operators.length === 0 || first.words.includes("SELECT")) return withCondition(sql, condition);
  return `${sql.slice(0, first.end)}\n|> WHERE ${condition}${sql.slice(first.end)}`;
}

const RESERVED = new Set("ALL AND ANY ARRAY AS ASC AT BETWEEN BY CASE CAST CROSS CURRENT DEFAULT DESC DISTINCT ELSE END EXCEPT EXISTS FALSE FOR FROM FULL GROUP GROUPING HAVING IF IN INNER INTERSECT INTERVAL INTO IS JOIN LEFT LIKE LIMIT NATURAL NOT NULL ON OR ORDER OUTER OVER PARTITION RANGE RIGHT ROWS SELECT SET STRUCT THEN TO TRUE UNION UNNEST USING WHEN WHERE WINDOW WITH".split(" "));

/** Whether a word in capitals is no name unless it is quoted. */
export const isReserved = (word: string): boolean => RESERVED.has(word);

/** A name as SQL writes it. */
export function identifier(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) && !RESERVED.has(name.toUpperCase()) ? name : `\`${name.replace(/[`\\]/g, "\\$&")}\``;
}

/** A text as SQL writes it. */
export function literal(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&").replace(/\n/g, "\\n").replace(/\r/g, "\\r").replace(/\t/g, "\\t")}'`;
}

/** The aggregate functions; of HLL_COUNT, the last of its two names. */
const AGGREGATE = /^(COUNT|COUNTIF|SUM|AVG|MIN|MAX|ANY_VALUE|(LOGICAL|BOOL)_(AND|OR)|BIT_(AND|OR|XOR)|STDDEV.*|VAR.*|APPROX_.*|CORR|COVAR_.*|.*_AGG|M(IN|AX)_BY|INIT|MERGE|MERGE_PARTIAL)$/i;

export const isAggregate = (name: string): boolean => AGGREGATE.test(name);

/** The expression of each column of a SELECT, by the column's name, where a condition may use it. Null where none may. */
export function expressions(sql: string): Map<string, string> | null {
  const found = select(sql);
  const list = found && body(found, "SELECT");
  if (!found || !list || found.clauses.GROUP || found.clauses.HAVING || found.clauses.QUALIFY || /^DISTINCT\b/i.test(list)) return null;
  const map = new Map<string, string>();
  const all = tokens(list);
  if (all.some((token, at) => token.kind === "word" && (token.text.toUpperCase() === "OVER" || (isAggregate(token.text) && all[at + 1]?.text === "(")))) return null;
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
  const found = rows(sql);
  if (!found || found.head.trim()) return null;
  const parts = tokens(found.from);
  const name = parts[0];
  const isPlain = parts.length === 1 || (parts.length === 3 && parts[1]?.text.toUpperCase() === "AS") || (parts.length === 2 && parts[1]?.kind === "word");
  return name && isPlain && name.kind !== "sign" && name.kind !== "text" ? name.text.replace(/^`|`$/g, "") : null;
}

/** A saved query with another statement over its granted tables in place of its own. Null where it has no such tables. */
export function overGrants(saved: string, sql: string): string | null {
  const grants = headOf(saved)?.trim();
  if (!grants || tokens(grants).length === 0) return null;
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
  const parts = pipeline(sql);
  if (parts.length > 1) return followedPipes(sql, parts);
  const found = select(sql);
  const { ORDER: order, LIMIT: limit, OFFSET: offset } = found?.clauses ?? {};
  const isNewest = order === undefined || /^BY\s+`?timestamp`?\s+DESC$/i.test(sql.slice(order.body, order.end).trim());
  const isNumber = limit === undefined || /^\d+$/.test(sql.slice(limit.body, limit.end).trim());
  const first = order ?? limit;
  const last = limit ?? order;
  if (!first || !last || !isNewest || !isNumber || offset) return { sql, rows: null };
  return { sql: sql.slice(0, first.start).trimEnd() + sql.slice(last.end), rows: limit ? Number(sql.slice(limit.body, limit.end)) : null };
}

function followedPipes(sql: string, parts: ReturnType<typeof pipeline>): { sql: string; rows: number | null } {
  const last = parts.at(-1);
  const limit = last?.words.length === 2 && last.words[0] === "LIMIT" && /^\d+$/.test(last.words[1] ?? "") ? last : undefined;
  const order = parts.at(limit ? -2 : -1);
  const isNewest = /^ORDER BY `?TIMESTAMP`? DESC$/.test(order?.words.join(" ") ?? "");
  const from = isNewest ? order : limit;
  if (!from || (!isNewest && order?.words[0] === "ORDER")) return { sql, rows: null };
  return { sql: sql.slice(0, from.start).trimEnd() + sql.slice(last?.end), rows: limit ? Number(limit.words[1]) : null };
}
