// What the editor offers while a statement is written: the operators of pipes, and the columns that are there at each place of it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { CompletionContext } from "@codemirror/autocomplete";
import { ensureSyntaxTree } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { load } from "./modules.mjs";

const text = { kind: "text", name: "STRING" };
const number = { kind: "number", name: "INT64" };
const record = (...fields) => ({ kind: "list", name: "ARRAY<STRUCT>", item: { kind: "record", name: "STRUCT", fields } });
const METADATA = record({ name: "level", type: text }, { name: "request", type: record({ name: "path", type: text }, { name: "select", type: text }) });
const TABLES = new Map([
  ["logs", [{ name: "id", type: text }, { name: "timestamp", type: { kind: "timestamp", name: "TIMESTAMP" } }, { name: "metadata", type: METADATA }]],
  ["my.source", [{ name: "project", type: text }]],
  ["users", [{ name: "id", type: text }, { name: "name", type: text }, { name: "age", type: number }]],
]);

describe("completion", () => {
  let completeSql, languages;
  before(async () => {
    ({ completeSql } = await load("/src/editor/complete.ts"));
    languages = await load("/src/editor/languages.ts");
  });

  /** The options at the ^ of a text, the likeliest first. */
  function at(marked, explicit = true) {
    const pos = marked.indexOf("^");
    const state = EditorState.create({ doc: marked.replace("^", ""), extensions: [languages.dialect.language] });
    ensureSyntaxTree(state, state.doc.length, 5000);
    const result = completeSql(() => TABLES)(new CompletionContext(state, pos, explicit));
    return result?.options.toSorted((a, b) => (b.boost ?? 0) - (a.boost ?? 0)) ?? [];
  }
  const labels = (marked, explicit) => at(marked, explicit).map((one) => one.label);
  /** The names that are offered as columns, in the alphabet's order. */
  const columns = (marked) => at(marked).filter((one) => one.type === "property").map((one) => one.label).sort().join(" ");
  const first = (marked, explicit) => labels(marked, explicit)[0];

  test("after a pipe the operators are offered, before a letter is written", () => {
    for (const query of ["FROM logs |>^", "FROM logs |> ^", "FROM logs\n|> ^", "SELECT id FROM logs |> ^", "FROM logs |> LIMIT 5 |> ^ |> WHERE id = 'a'", "SELECT (FROM logs |> ^)", "FROM logs |> WH^"]) {
      const found = labels(query, false);
      assert.equal(found[0], "WHERE", query);
      for (const operator of ["EXTEND", "AGGREGATE", "ORDER BY", "LEFT JOIN", "UNION ALL", "UNPIVOT", "ASSERT"]) assert.ok(found.includes(operator), `${query}: ${operator}`);
      assert.ok(!found.includes("id") && !found.includes("ABS") && !found.includes("CALL"), query);
    }
  });

  test("a query begins with SELECT, FROM or WITH", () => {
    for (const query of ["^", "S^", "WITH a AS (SELECT 1) ^", "WITH a AS (^", "SELECT 1 UNION ALL ^", "SELECT EXISTS(^)", "SELECT 1 |> UNION ALL (^"]) assert.deepEqual(labels(query).slice(0, 3).sort(), ["FROM", "SELECT", "WITH"], query);
  });

  test("tables come after FROM and JOIN, those of WITH among them", () => {
    for (const query of ["FROM ^", "SELECT ^ FROM logs".replace("^ FROM logs", "id FROM ^"), "FROM logs |> JOIN ^", "FROM logs, ^", "SELECT 1 FROM logs LEFT JOIN ^", "SELECT id FROM (^"]) assert.deepEqual(labels(query, false).slice(0, 3).sort(), ["logs", "my.source", "users"], query);
    assert.ok(labels("WITH mine AS (SELECT 1 AS a) SELECT * FROM ^").slice(0, 4).includes("mine"));
    assert.ok(labels("FROM logs |> WITH mine AS (FROM users) |> JOIN ^").slice(0, 4).includes("mine"));
    assert.equal(at("FROM ^").find((one) => one.label === "my.source").apply, "`my.source`");
    assert.ok(!labels("FROM ^ |> WITH mine AS (FROM users)").includes("mine"));
  });

  test("the columns of a table are known in each clause, and of no other table", () => {
    for (const query of ["SELECT ^ FROM users", "SELECT id FROM users WHERE ^", "FROM users |> WHERE ^", "FROM users |> SELECT ^", "FROM users |> ORDER BY ^", "SELECT UPPER(^) FROM users", "FROM users |> EXTEND CASE WHEN ^", "FROM users AS logs |> WHERE (age > 1 AND (^", "SELECT id FROM users GROUP BY ^"]) assert.equal(columns(query), "age id name", query);
    assert.equal(columns("SELECT id FROM logs JOIN users USING (id) WHERE ^"), "age id metadata name timestamp");
    assert.equal(columns("SELECT id FROM logs JOIN users ON ^"), "age id metadata name timestamp");
    assert.equal(columns("SELECT age AS years FROM users ORDER BY ^"), "age id name years");
    assert.equal(columns("SELECT ^ FROM users UNION ALL SELECT id FROM logs"), "age id name");
    assert.equal(columns("SELECT id FROM users EXCEPT DISTINCT SELECT ^ FROM logs"), "id metadata timestamp");
  });

  test("operators change the columns of those below", () => {
    for (const [operators, expected] of [
      ["|> EXTEND age + 1 AS next, UPPER(name) upper", "age id name next upper"],
      ["|> SET age = 1", "age id name"],
      ["|> DROP id, age", "name"],
      ["|> RENAME age AS years, id AS key", "key name years"],
      ["|> SELECT name, age * 2 AS twice, age + 1", "name twice"],
      ["|> SELECT * EXCEPT (id), 1 AS one", "age name one"],
      ["|> AGGREGATE COUNT(*) AS n, SUM(age) AS s GROUP BY name", "n name s"],
      ["|> AGGREGATE SUM(age) AS s DESC NULLS LAST GROUP AND ORDER BY name AS who DESC", "s who"],
      ["|> AGGREGATE MAX(age) oldest", "oldest"],
      ["|> AS u", "age id name"],
      ["|> JOIN logs USING (id)", "age id metadata name timestamp"],
      ["|> LEFT JOIN (FROM logs |> SELECT id, timestamp AS at) AS l ON l.id = id", "age at id name"],
      ["|> UNION ALL (SELECT 1, 2, 3)", "age id name"],
      ["|> WITH old AS (FROM users |> SELECT age AS years) |> CROSS JOIN old", "age id name years"],
      ["|> DISTINCT |> LIMIT 5 OFFSET 2", "age id name"],
      ["|> WINDOW ROW_NUMBER() OVER (ORDER BY age) AS place", "age id name place"],
      ["|> PIVOT(SUM(age) FOR name IN ('a', 'b' AS c))", "a c id"],
      ["|> UNPIVOT(Value FOR Kind IN (id, name))", "Kind Value age"],
      ["|> ASSERT age > 0, 'message', age", "age id name"],
    ]) {
      for (const end of ["|> WHERE ^", "\n|> WHERE x AND ^ > 1 |> LIMIT 5"]) assert.equal(columns(`FROM users ${operators} ${end}`), expected, operators);
    }
    // What is below changes nothing above.
    assert.equal(columns("FROM users |> WHERE ^ |> DROP age |> SELECT 1 AS one"), "age id name");
  });

  test("an alias means the row as it was", () => {
    for (const query of ["FROM users AS u |> WHERE u.^", "FROM users u |> DROP age |> RENAME id AS key |> SET name = '' |> EXTEND u.^", "SELECT u.^ FROM users AS u", "FROM users |> AS u |> SELECT u.^"]) assert.equal(columns(query), "age id name", query);
    for (const query of ["FROM users AS u |> SELECT id |> WHERE u.^", "FROM users |> AS u |> AGGREGATE COUNT(*) AS n |> SELECT u.^"]) assert.equal(columns(query), "", query);
    assert.ok(labels("FROM users AS u |> WHERE ^").includes("u"));
  });

  test("in AGGREGATE the aggregate functions come first, after GROUP BY the columns", () => {
    for (const query of ["FROM users |> AGGREGATE ^", "FROM users |> AGGREGATE COUNT(*) AS n, ^ GROUP BY name", "FROM users |> PIVOT(^"]) {
      const found = labels(query);
      assert.ok(found.indexOf("COUNT") < found.indexOf("age") && found.indexOf("HLL_COUNT.INIT") < found.indexOf("age"), query);
      assert.ok(found.indexOf("age") < found.indexOf("ABS") || query.includes("PIVOT"), query);
    }
    for (const query of ["FROM users |> AGGREGATE COUNT(*) AS n GROUP BY ^", "FROM users |> AGGREGATE COUNT(*) AS n GROUP AND ORDER BY name, ^", "SELECT COUNT(*) FROM users GROUP BY ^", "FROM users |> AGGREGATE SUM(^"]) assert.deepEqual(labels(query).slice(0, 3).sort(), ["age", "id", "name"], query);
    const after = labels("FROM users |> AGGREGATE COUNT(*) AS n ^");
    assert.ok(after.indexOf("GROUP BY") < after.indexOf("age") && after.includes("GROUP AND ORDER BY"));
    assert.ok(!labels("SELECT id FROM users ^").includes("GROUP AND ORDER BY"));
  });

  test("where only a column's name may stand, nothing else is offered", () => {
    for (const query of ["FROM users |> DROP ^", "FROM users |> DROP id, ^", "FROM users |> RENAME ^", "FROM users |> SET age = 1, ^", "FROM users |> JOIN logs USING (^"]) assert.ok(at(query, false).every((one) => one.type === "property") && labels(query).includes("age"), query);
    // A column is named here, not its first element.
    assert.equal(at("FROM logs |> DROP ^").find((one) => one.label === "metadata").apply, "metadata");
    assert.equal(at("FROM logs |> WHERE ^").find((one) => one.label === "metadata").apply, "metadata[SAFE_OFFSET(0)]");
    assert.ok(labels("FROM users |> SET age = ^").includes("ABS"));
  });

  test("nothing is offered for a new name, in texts and in comments", () => {
    for (const query of ["SELECT age AS ^ FROM users", "FROM users |> AS ^", "FROM users |> EXTEND 1 AS a^", "FROM users AS u^", "WITH ^", "WITH a AS (SELECT 1), b^", "SELECT 'a ^' FROM users", "SELECT id -- ^\nFROM users", "FROM users /* |> ^ */", "FROM users |> RENAME id AS ^"]) assert.deepEqual(labels(query), [], query);
    assert.ok(labels("SELECT CAST(age AS ^) FROM users").includes("FLOAT64"));
  });

  test("fields are found behind paths, elements and arrays of tables", () => {
    for (const query of ["FROM logs |> WHERE metadata[SAFE_OFFSET(0)].^", "SELECT m.^ FROM logs, UNNEST(metadata) AS m", "FROM logs AS l, l.metadata AS m |> SELECT m.^", "FROM logs |> JOIN UNNEST(metadata) AS m |> WHERE m.^", "FROM logs |> EXTEND metadata[0] AS m |> WHERE m.^", "SELECT (SELECT m.^ FROM UNNEST(l.metadata) AS m) FROM logs AS l"]) assert.equal(columns(query), "level request", query);
    assert.equal(columns("SELECT r.^ FROM logs, UNNEST(metadata) AS m LEFT JOIN UNNEST(m.request) AS r"), "path select");
    assert.equal(at("FROM logs |> WHERE metadata[SAFE_OFFSET(0)].request[SAFE_OFFSET(0)].s^").find((one) => one.label === "select").apply, "`select`");
    assert.equal(columns("FROM UNNEST([STRUCT('a' AS k, 1 AS n), ('b', 2)]) AS t WITH OFFSET AS at |> WHERE ^"), "at k n");
    assert.equal(columns("FROM UNNEST(['a']) AS x |> WHERE ^"), "x");
  });

  test("a subquery sees its own tables and the row that it stands in", () => {
    assert.equal(columns("SELECT id FROM users WHERE EXISTS (SELECT 1 FROM logs WHERE ^)"), "age id metadata name timestamp");
    assert.equal(columns("SELECT id FROM (SELECT age AS years FROM users WHERE ^)"), "age id name");
    assert.equal(columns("SELECT ^ FROM (SELECT age AS years FROM users)"), "years");
    assert.equal(columns("WITH a AS (SELECT age AS years FROM users), b AS (FROM a |> EXTEND 1 AS one) FROM b |> WHERE ^"), "one years");
    assert.equal(columns("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT ^ FROM r) FROM r"), "n");
  });

  test("new functions: HLL_COUNT, RANGE, WITH(...), calls behind a value", () => {
    assert.ok(labels("SELECT ^ FROM users").includes("RANGE_CONTAINS"));
    assert.deepEqual(labels("SELECT HLL_COUNT.^ FROM users").sort(), ["EXTRACT", "INIT", "MERGE", "MERGE_PARTIAL"]);
    assert.equal(at("SELECT HLL_COUNT.M^ FROM users").find((one) => one.label === "MERGE").apply, "MERGE(");
    assert.ok(labels("SELECT NET.^").includes("HOST"));
    assert.ok(labels("SELECT SAFE.^").includes("PARSE_DATE") && !labels("SELECT SAFE.^").includes("COUNT"));
    assert.ok(labels("SELECT (name).^ FROM users").includes("UPPER") && labels("SELECT (name).UPPER().S^ FROM users").includes("SUBSTR") && !labels("SELECT (name).^").includes("SUM"));
    assert.equal(columns("FROM users |> SELECT WITH(first AS age, second AS first * 2, ^)"), "age first id name second");
    assert.equal(columns("FROM users |> SELECT WITH(first AS ^"), "age id name");
    assert.ok(at("FROM users |> SELECT ^").some((one) => one.apply === "WITH("));
  });

  test("words come first where a value has ended", () => {
    assert.ok(["AND", "OR", "LIKE"].every((word) => labels("FROM users |> WHERE age > 1 ^").indexOf(word) < labels("FROM users |> WHERE age > 1 ^").indexOf("name")));
    assert.notEqual(first("FROM users |> WHERE ^"), "AND");
  });

  test("a saved query knows the columns of the sources that its tables read", async () => {
    const { columnsOf } = await load("/src/query/schema.ts");
    const found = columnsOf({ "metadata.request.path": "STRING", id: "STRING", metadata: "ARRAY<STRUCT>", "metadata.request": "ARRAY<STRUCT>", "metadata.a.b": "INT64", "x.y": "FLOAT64", "metadata.tags": "ARRAY<STRING>" });
    assert.deepEqual(found.map((one) => one.name).sort(), ["id", "metadata", "x.y"]);
    const inner = found.find((one) => one.name === "metadata").type.item.fields;
    assert.deepEqual(inner.map((one) => `${one.name} ${one.type.name}`).sort(), ["a.b INT64", "request RECORD", "tags ARRAY<STRING>"]);
    assert.deepEqual(inner.find((one) => one.name === "request").type.item.fields, [{ name: "path", type: text }]);
    assert.equal(columns("WITH logs AS (\n  SELECT ^\n  FROM `my.source` AS t\n  WHERE t.project = @project\n)\nSELECT 1 FROM logs"), "project");
    assert.equal(columns("WITH logs AS (SELECT t.project AS p, 1 AS one FROM `my.source` AS t)\nSELECT ^ FROM logs"), "one p");
  });

  test("names are completed between backticks", () => {
    for (const query of ["SELECT 1 FROM `^`", "SELECT 1 FROM `my.so^`", "SELECT 1 FROM `^"]) assert.deepEqual(labels(query).sort(), ["logs", "my.source", "users"], query);
    assert.equal(at("FROM `my.s^`").find((one) => one.label === "my.source").apply, "my.source");
    assert.equal(at("FROM `my.s^").find((one) => one.label === "my.source").apply, "my.source`");
    assert.deepEqual(labels("SELECT `^` FROM users").sort(), ["age", "id", "name"]);
    assert.ok(labels("SELECT 1 FROM `my.source`^").includes("WHERE"));
  });

  test("hostile and broken texts end", () => {
    const nested = "WITH RECURSIVE a AS (".repeat(60);
    for (const query of [`${nested}SELECT ^`, `SELECT ${"(".repeat(50_000)}^`, `${")".repeat(1000)} SELECT ^`, `FROM users ${"|> EXTEND 1 AS a ".repeat(3000)} |> WHERE ^`, "FROM |> |> ON ON USING ^", "SELECT * EXCEPT ^", "FROM users PIVOT ^", "FROM users |> UNPIVOT(^", "WITH a AS ^", "FROM logs, UNNEST(^", "'^", "FROM users JOIN ON ^ |> WHERE", "; ; SELECT ^"]) {
      const start = performance.now();
      at(query);
      assert.ok(performance.now() - start < 2000, `${query.slice(0, 60)} took ${performance.now() - start} ms`);
    }
    assert.equal(columns("FROM users |> EXTEND (((age AS x |> WHERE ^"), "age id name");
  });
});
