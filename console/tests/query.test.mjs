// What the console does to the text of a query: a wrong condition would be a wrong answer. Run by `npm test` in console/.
import assert from "node:assert/strict";
import { before, test } from "node:test";
// One command runs all tests that need no browser.
import "./access.test.mjs";
import "./complete.test.mjs";
import "./draft.test.mjs";
import "./live.test.mjs";
import "./result.test.mjs";
import "./state.test.mjs";
import { load } from "./modules.mjs";

let sql;
let path;
let counts;
before(async () => {
  counts = await load("/src/query/histogram.ts");
  sql = await load("/src/sqlText.ts");
  path = await load("/src/result/path.ts");
});

const flat = (text) => text?.replace(/\s+/g, " ").trim();
const TEXT = { kind: "text", name: "STRING" };
const NUMBER = { kind: "number", name: "INT64" };

test("a text that an editor told is no change when it comes back, however late", async () => {
  const { Echoes } = await load("/src/editor/echo.ts");
  const echoes = new Echoes();
  assert.ok(!echoes.isOwn("from elsewhere"));
  for (const text of ["a", "ab", "abc"]) echoes.tell(text);
  // Two keys came before the first rendering, and one rendering is left out.
  assert.deepEqual(["a", "abc", "abc"].map((text) => echoes.isOwn(text)), [true, true, true]);
  // What was passed by a later text is from elsewhere: a link, the history.
  assert.ok(!echoes.isOwn("ab"));
  echoes.tell("ab");
  assert.ok(echoes.isOwn("ab") && !echoes.isOwn("abc"));
});

test("a mistake is underlined where the server counts it", async () => {
  const { diagnostic } = await load("/src/editor/mistakes.ts");
  const { EditorState } = await import("@codemirror/state");
  const marked = (text, line, column) => {
    const state = EditorState.create({ doc: text });
    const { from, to } = diagnostic(state, { message: "", line, column });
    return state.sliceDoc(from, to);
  };
  assert.equal(marked("FROM t\n|> WHERE colum > 1", 2, 10), "colum");
  assert.equal(marked("FROM t |> WHER x", 1, 11), "WHER");
  assert.equal(marked("FROM t |> WHERE x", 1, 8), "|>");
  assert.equal(marked("SELECT '\u{1f600}\u{1f600}', colum", 1, 14), "colum");
  assert.equal(marked("SELECT `a b`.c", 1, 8), "`a b`");
  assert.equal(marked("SELECT a FROM", 1, 14), "M");
  assert.equal(marked("", 9, 9), "");
});

test("a condition goes into the outermost WHERE", () => {
  const add = (text) => flat(sql.withCondition(text, "x = 1"));
  assert.equal(add("SELECT a FROM t"), "SELECT a FROM t WHERE x = 1");
  assert.equal(add("SELECT a FROM t ORDER BY a LIMIT 5;"), "SELECT a FROM t WHERE x = 1 ORDER BY a LIMIT 5;");
  assert.equal(add("SELECT a FROM t WHERE b = 2 GROUP BY a"), "SELECT a FROM t WHERE b = 2 AND x = 1 GROUP BY a");
  assert.equal(add("SELECT a FROM t WHERE b = 2 OR c = 3"), "SELECT a FROM t WHERE (b = 2 OR c = 3) AND x = 1");
  assert.equal(add("SELECT a FROM t WHERE (b = 2 OR c = 3)"), "SELECT a FROM t WHERE (b = 2 OR c = 3) AND x = 1");
  assert.equal(add("WITH u AS (SELECT a FROM t WHERE a > 1 ORDER BY a) SELECT a FROM u"), "WITH u AS (SELECT a FROM t WHERE a > 1 ORDER BY a) SELECT a FROM u WHERE x = 1");
  assert.equal(add("SELECT 'FROM x WHERE y' AS a, `where` FROM t -- WHERE\nLIMIT 1"), "SELECT 'FROM x WHERE y' AS a, `where` FROM t WHERE x = 1 -- WHERE LIMIT 1");
  assert.equal(add("SELECT a FROM t WHERE b OR c -- why\nLIMIT 1"), "SELECT a FROM t WHERE (b OR c) AND x = 1 -- why LIMIT 1");
  assert.equal(add("SELECT a IS DISTINCT FROM b AS d FROM t"), "SELECT a IS DISTINCT FROM b AS d FROM t WHERE x = 1");
  assert.equal(add("SELECT a FROM t UNION ALL SELECT a FROM u; -- both"), "SELECT * FROM ( SELECT a FROM t UNION ALL SELECT a FROM u ) WHERE x = 1");
  assert.equal(add("SELECT a FROM t UNION ALL SELECT a FROM u"), "SELECT * FROM ( SELECT a FROM t UNION ALL SELECT a FROM u ) WHERE x = 1");
  assert.equal(add("SELECT a FROM t EXCEPT DISTINCT SELECT a FROM u"), "SELECT * FROM ( SELECT a FROM t EXCEPT DISTINCT SELECT a FROM u ) WHERE x = 1");
});

test("behind pipes a condition is one more operator", () => {
  const add = (text) => flat(sql.withCondition(text, "x = 1"));
  assert.equal(add("FROM t |> WHERE a > 1 |> LIMIT 5;"), "FROM t |> WHERE a > 1 |> LIMIT 5 |> WHERE x = 1");
  assert.equal(add("SELECT a FROM t |> LIMIT 5"), "SELECT a FROM t |> LIMIT 5 |> WHERE x = 1");
  assert.equal(add("SELECT a FROM (FROM t |> LIMIT 5) LIMIT 1"), "SELECT a FROM (FROM t |> LIMIT 5) WHERE x = 1 LIMIT 1");
  assert.equal(add("FROM t |> WHERE a -- |> why"), "FROM t |> WHERE a |> WHERE x = 1");
  assert.equal(add("FROM t"), "FROM t |> WHERE x = 1");
  assert.equal(add("FROM t |> WHERE a |>"), "FROM t |> WHERE a |> WHERE x = 1");
  assert.equal(flat(path.filterSql("FROM t |> AGGREGATE COUNT(*) AS n GROUP BY k", { column: "n", steps: [] }, 3, NUMBER)), "FROM t |> AGGREGATE COUNT(*) AS n GROUP BY k |> WHERE n = 3");
});

test("a condition on the rows of a table goes before what groups them", () => {
  const add = (text) => flat(path.filterRowsSql(text, { column: "m", steps: [{ element: 0, ofRecords: true }, { field: "level" }] }, "error", TEXT));
  const condition = "m[SAFE_OFFSET(0)].level = 'error'";
  assert.equal(add("SELECT a, COUNT(*) AS n FROM t GROUP BY a"), `SELECT a, COUNT(*) AS n FROM t WHERE ${condition} GROUP BY a`);
  assert.equal(add("FROM t |> AGGREGATE COUNT(*) AS n GROUP BY a"), `FROM t |> WHERE ${condition} |> AGGREGATE COUNT(*) AS n GROUP BY a`);
  assert.equal(add("FROM t"), `FROM t |> WHERE ${condition}`);
  assert.equal(add("SELECT m FROM t |> LIMIT 5"), `SELECT m FROM t |> LIMIT 5 |> WHERE ${condition}`);
  assert.equal(path.filterRowsSql("FROM t", { column: "m", steps: [] }, [1], { kind: "list", name: "ARRAY<INT64>" }), null);
});

test("the rows of tables that pipes take are known, or nothing is said of them", () => {
  const rows = (text) => sql.rows(text);
  assert.deepEqual(rows("FROM t |> WHERE a OR b |> WHERE c |> ORDER BY a |> LIMIT 5"), { head: "", from: "t", where: "(a OR b)\n  AND c" });
  assert.deepEqual(rows("WITH u AS (SELECT 1) FROM u AS v |> EXTEND 1 AS one |> AGGREGATE COUNT(*) AS n |> WHERE n > 1"), { head: "WITH u AS (SELECT 1) ", from: "u AS v", where: null });
  assert.deepEqual(rows("SELECT a FROM t WHERE b LIMIT 5"), { head: "", from: "t", where: "b" });
  for (const text of ["FROM t |> EXTEND a + 1 AS b |> WHERE b > 1", "FROM t |> JOIN u USING (a)", "FROM t |> DISTINCT", "FROM t |> SELECT DISTINCT a |> LIMIT 5", "SELECT a FROM t |> WHERE a > 1", "SELECT a FROM t UNION ALL SELECT 1", "SELECT 1 |> LIMIT 5"]) assert.equal(rows(text), null, text);
  for (const text of ["FROM `my.logs` |> WHERE TRUE", "FROM `my.logs`", "FROM `my.logs` |>"]) assert.equal(sql.onlyTable(text), text.endsWith("|>") ? null : "my.logs");
});

test("a column is known by its expression, an aggregate by the statement around it", () => {
  const filter = (text, column, value, type = TEXT, exclude = false, steps = []) => flat(path.filterSql(text, { column, steps }, value, type, exclude));
  assert.equal(filter("SELECT a AS b FROM t", "b", "v"), "SELECT a AS b FROM t WHERE a = 'v'");
  assert.equal(filter("SELECT m.path FROM t, UNNEST(t.metadata) AS m", "path", "v"), "SELECT m.path FROM t, UNNEST(t.metadata) AS m WHERE m.path = 'v'");
  assert.equal(filter("SELECT UPPER(a) AS b, c FROM t", "b", "V"), "SELECT UPPER(a) AS b, c FROM t WHERE UPPER(a) = 'V'");
  assert.equal(filter("SELECT * FROM t LIMIT 5", "a", 3, NUMBER), "SELECT * FROM t WHERE a = 3 LIMIT 5");
  assert.equal(filter("SELECT a, COUNT(*) AS n FROM t GROUP BY a", "n", 3, NUMBER), "SELECT * FROM ( SELECT a, COUNT(*) AS n FROM t GROUP BY a ) WHERE n = 3");
  assert.equal(filter("SELECT DISTINCT a AS b FROM t", "b", "v"), "SELECT * FROM ( SELECT DISTINCT a AS b FROM t ) WHERE b = 'v'");
  assert.equal(filter("SELECT a FROM t", "a", "v", TEXT, true), "SELECT a FROM t WHERE a IS DISTINCT FROM 'v'");
  assert.equal(filter("SELECT a FROM t", "a", null), "SELECT a FROM t WHERE a IS NULL");
  assert.equal(filter("SELECT a FROM t", "a", null, TEXT, true), "SELECT a FROM t WHERE a IS NOT NULL");
  assert.equal(filter("SELECT a FROM t", "a", 9007199254740993n, NUMBER), "SELECT a FROM t WHERE a = 9007199254740993");
  assert.equal(filter("SELECT ROW_NUMBER() OVER (ORDER BY a) AS r, a FROM t", "r", 1, NUMBER), "SELECT * FROM ( SELECT ROW_NUMBER() OVER (ORDER BY a) AS r, a FROM t ) WHERE r = 1");
});

test("paths, names and texts are written so that the server reads the same", () => {
  const steps = [{ element: 0, ofRecords: true }, { field: "request" }, { element: 0, ofRecords: true }, { field: "select" }];
  assert.equal(path.sqlPath({ column: "metadata", steps }), "metadata[SAFE_OFFSET(0)].request[SAFE_OFFSET(0)].`select`");
  assert.equal(sql.literal("it's a \\ \n"), "'it\\'s a \\\\ \\n'");
  assert.equal(sql.identifier("a`b"), "`a\\`b`");
  assert.equal(path.filterLql("f:t", { column: "metadata", steps }, 'a "b"', TEXT, true), 'f:t -m.request.select:"a \\"b\\""');
  assert.equal(path.filterLql("", { column: "my field", steps: [] }, "v", TEXT, false), null);
});

test("one table is known as such", () => {
  assert.equal(sql.onlyTable("SELECT * FROM `my.logs` AS t WHERE TRUE"), "my.logs");
  assert.equal(sql.onlyTable("SELECT * FROM a, b"), null);
  assert.equal(sql.onlyTable("SELECT * FROM a JOIN b USING (x)"), null);
  assert.equal(sql.onlyTable("SELECT * FROM (SELECT 1)"), null);
});

test("a statement of Explore becomes a saved query over the same tables", () => {
  const saved = "-- why\nWITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y)\nSELECT x FROM a";
  const keep = (text) => flat(sql.overGrants(saved, text));
  assert.equal(keep("SELECT y FROM b;"), "-- why WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) SELECT y FROM b");
  assert.equal(keep("WITH c AS (SELECT y FROM b) SELECT y FROM c"), "-- why WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y), c AS (SELECT y FROM b) SELECT y FROM c");
  assert.equal(keep("SELECT x FROM a UNION ALL SELECT y FROM b"), "-- why WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) SELECT x FROM a UNION ALL SELECT y FROM b");
  assert.equal(keep("-- mine\nWITH c AS (SELECT y FROM b) SELECT y FROM c UNION ALL SELECT 1; -- end"), "-- why WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y), c AS (SELECT y FROM b) SELECT y FROM c UNION ALL SELECT 1");
  assert.equal(keep("FROM b |> WHERE y > 1"), "-- why WITH a AS (SELECT 1 AS x), b AS (SELECT 2 AS y) FROM b |> WHERE y > 1");
  assert.equal(flat(sql.overGrants("WITH a AS (SELECT 1 AS x) FROM a |> LIMIT 1", "SELECT x FROM a")), "WITH a AS (SELECT 1 AS x) SELECT x FROM a");
  for (const other of ["SELECT 1", "-- none\nSELECT 1", "FROM t |> LIMIT 1"]) assert.equal(sql.overGrants(other, "SELECT 2"), null);
});

test("a statement is followed without the order that following has anyway", () => {
  const followed = (text) => { const { sql: left, rows } = sql.followed(text); return [flat(left), rows]; };
  assert.deepEqual(followed("SELECT a FROM t WHERE b ORDER BY timestamp DESC LIMIT 500"), ["SELECT a FROM t WHERE b", 500]);
  assert.deepEqual(followed("SELECT a FROM t order by `timestamp` desc;"), ["SELECT a FROM t;", null]);
  assert.deepEqual(followed("SELECT a FROM t LIMIT 5 -- why"), ["SELECT a FROM t -- why", 5]);
  assert.deepEqual(followed("FROM t |> WHERE b |> ORDER BY timestamp DESC |> LIMIT 500"), ["FROM t |> WHERE b", 500]);
  assert.deepEqual(followed("FROM t |> LIMIT 7;"), ["FROM t;", 7]);
  assert.deepEqual(followed("FROM t |> order by `timestamp` desc"), ["FROM t", null]);
  for (const text of ["FROM t |> ORDER BY a |> LIMIT 5", "FROM t |> LIMIT 5 OFFSET 1", "FROM t |> LIMIT 5 |> WHERE a", "SELECT a FROM t", "SELECT a FROM t ORDER BY a LIMIT 5", "SELECT a FROM t ORDER BY timestamp LIMIT 5", "SELECT a FROM t ORDER BY timestamp DESC, a", "SELECT a FROM t LIMIT 5 OFFSET 5", "SELECT a FROM t LIMIT @n", "SELECT 1 UNION ALL SELECT 2 LIMIT 1"]) assert.deepEqual(followed(text), [text, null]);
});

test("rows are counted over time by what the query filters, and by severity", () => {
  const HOUR = 3_600_000;
  const record = { kind: "list", name: "ARRAY<STRUCT>", item: { kind: "record", name: "STRUCT", fields: [{ name: "level", type: TEXT }, { name: "request", type: TEXT }] } };
  const columns = [{ name: "timestamp", type: { kind: "timestamp", name: "TIMESTAMP" } }, { name: "metadata", type: record }];
  const over = (text, hours, known = [], mode = "sql") => flat(counts.overTime({ mode, text, range: hours === null ? null : { start: 0, end: hours * HOUR }, columns: known }));
  assert.equal(over("SELECT a FROM t WHERE b = 1 ORDER BY a LIMIT 5", 24), "SELECT TIMESTAMP_TRUNC(timestamp, HOUR) AS hour, COUNT(*) AS total FROM t WHERE b = 1 GROUP BY hour ORDER BY hour");
  assert.equal(over("SELECT * FROM t", 1, columns), "SELECT TIMESTAMP_TRUNC(timestamp, MINUTE) AS minute, metadata[SAFE_OFFSET(0)].level AS level, COUNT(*) AS total FROM t GROUP BY minute, level ORDER BY minute");
  assert.equal(over("WITH u AS (SELECT * FROM t) SELECT * FROM u", null), "WITH u AS (SELECT * FROM t) SELECT TIMESTAMP_TRUNC(timestamp, DAY) AS day, COUNT(*) AS total FROM u GROUP BY day ORDER BY day");
  assert.equal(over('f:t m.level:"a b" s:m.level', 24, [], "lql"), 'f:t m.level:"a b" c:count(*) c:group_by(t::hour)');
  assert.equal(over("FROM t |> WHERE b = 1 |> LIMIT 5", 24), over("SELECT * FROM t WHERE b = 1 LIMIT 5", 24));
  assert.equal(counts.overTime({ mode: "sql", text: "SELECT 1", range: null, columns: [] }), null);
});
