// What is made of answers for the page: the right text, and no more of it than can be looked at.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { load } from "./modules.mjs";

let format, range, arrow, fields;
before(async () => {
  format = await load("/src/result/format.ts");
  range = await load("/src/query/timeRange.ts");
  arrow = await load("/src/result/arrow.ts");
  fields = await load("/src/explore/fields.ts");
});

const of = (kind, more = {}) => ({ kind, name: kind.toUpperCase(), ...more });
const list = (item) => of("list", { item });
const record = (types) => of("record", { fields: Object.entries(types).map(([name, type]) => ({ name, type })) });
const resultOf = (columns, rows) => ({ columns: Object.entries(columns).map(([name, type]) => ({ name, type })), rows: rows.length, cell: (row, at) => rows[row][at] });
const TEXT = of("text");

test("a cell has its records without nulls, in one line", () => {
  const type = list(record({ level: TEXT, "a \"b\"": TEXT, n: of("number"), at: of("timestamp"), day: of("date"), list: list(of("number")), inner: list(record({ x: TEXT })), none: TEXT }));
  const value = [{ level: "é\n\"", "a \"b\"": "c", n: 9007199254740993n, at: 1.5, day: 86_400_000, list: [1, null, NaN], inner: [{ x: null }], none: null }];
  assert.equal(format.text(value, type), '{"level":"é\\n\\"","a \\"b\\"":"c","n":"9007199254740993","at":1500,"day":"1970-01-02","list":[1,null,null],"inner":{}}');
  assert.deepEqual([format.text([], type), format.text([null], type), format.text([value[0], null], type).slice(-6), format.text(null, type)], ["[]", "null", ",null]", ""].map((text, at) => (at === 2 ? "{}},null]".slice(-6) : text)));
});

test("a cell is not written beyond what is shown of it", () => {
  let read = 0;
  const values = new Proxy([], { get: (_, name) => (name === "length" ? 1_000_000 : (read += 1, "x".repeat(50))) });
  // A proxy of an array is one for Array.isArray.
  const shown = format.text(values, list(TEXT), 600);
  assert.equal(shown.length, 600);
  assert.ok(read < 30, `${read} of the values were read`);
  assert.equal(format.text("y".repeat(1_000_000), TEXT, 600), "y".repeat(600));
  const wide = record(Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`f${n}`, TEXT])));
  const whole = Object.fromEntries(wide.fields.map(({ name }) => [name, "z"]));
  assert.equal(format.text(whole, wide, 600), JSON.stringify(whole).slice(0, 600));
});

test("rows as JSON are as JSON.stringify writes them, and as many as fit", () => {
  const type = { a: TEXT, n: of("number"), m: list(record({ x: list(of("number")), y: record({}) })), e: list(TEXT) };
  const rows = [["a\"", 9007199254740993n, [{ x: [1, 2], y: {} }, null], []], [null, 1.5, [], ["one", null]], ["c", null, null, null]];
  const result = resultOf(type, rows);
  const expected = rows.map((row) => Object.fromEntries(result.columns.map((column, at) => [column.name, format.toJson(row[at], column.type)])));
  assert.deepEqual(format.jsonOf(result, 200, 1e6), { text: JSON.stringify(expected, null, 2), rows: 3, isCut: false });
  assert.deepEqual(format.jsonOf(result, 2, 1e6), { text: JSON.stringify(expected.slice(0, 2), null, 2), rows: 2, isCut: false });
  assert.deepEqual(format.jsonOf(resultOf(type, []), 200, 1e6), { text: "[]", rows: 0, isCut: false });
  for (let most = 1; most < 400; most += 1) {
    const { text, rows, isCut } = format.jsonOf(result, 200, most);
    assert.ok(text.length <= most + 20, `${text.length} characters for ${most}`);
    assert.equal(isCut ? JSON.stringify(expected, null, 2).startsWith(text.slice(0, -1)) : text, isCut ? true : JSON.stringify(expected.slice(0, rows), null, 2));
  }
  const long = resultOf({ a: TEXT }, [["x".repeat(50)], ["y".repeat(5_000_000)], ["z"]]);
  assert.deepEqual([format.jsonOf(long, 200, 1000).rows, JSON.parse(format.jsonOf(long, 200, 1000).text)], [1, [{ a: "x".repeat(50) }]]);
});

test("values that are not of the column's type are shown, not thrown at", () => {
  const result = arrow.readRows([{ m: { a: 1 }, l: [1], toString: "own" }, { m: "text", l: { b: 2 } }, { m: [1], l: null }]);
  const cells = (row) => result.columns.map((column, at) => format.text(result.cell(row, at), column.type));
  assert.deepEqual(cells(0), ['{"a":1}', "[1]", "own"]);
  assert.deepEqual(cells(1), ["text", '{"b":2}', ""]);
  assert.deepEqual(cells(2), ["[1]", "", ""]);
  assert.equal(JSON.parse(format.jsonOf({ ...result }, 200, 1e5).text)[1].m, "text");
  assert.equal(fields.statistics({ ...result }).fields.find((field) => field.path === "toString").filled, 1);
});

test("of a field the values are told that stand there most often, each with its rows", () => {
  const row = (path, note) => ({ m: [{ request: [{ path }] }], note });
  const result = arrow.readRows([row("/a", "x".repeat(100)), row("/b"), row("/b"), row(null)]);
  const found = fields.statistics(result).fields;
  const path = found.find((field) => field.path === "m.request.path");
  assert.deepEqual(path.examples.map(({ text, value, rows }) => [text, value, rows]), [["/b", "/b", 2], ["/a", "/a", 1]]);
  assert.equal(path.filled, 3);
  assert.deepEqual(path.at, { column: "m", steps: [{ element: 0, ofRecords: true }, { field: "request" }, { element: 0, ofRecords: true }, { field: "path" }] });
  // A value that is not shown whole is none that a condition could be made of.
  const [long] = found.find((field) => field.path === "note").examples;
  assert.deepEqual([long.text.length, long.value], [80, undefined]);
});

test("a time that is written by hand is one of the zone that is shown", () => {
  const zone = process.env.TZ;
  try {
    for (const name of ["America/New_York", "UTC", "Asia/Kolkata"]) {
      process.env.TZ = name;
      const at = Date.parse("2026-07-01T10:20:30Z");
      for (const utc of [true, false]) assert.equal(range.parsed(format.time(at, utc).slice(0, 19), utc), at, `${name}, ${utc}`);
      assert.equal(range.parsed("2026-07-01", true), Date.parse("2026-07-01T00:00:00Z"));
      assert.equal(range.parsed(" 2026-07-01", false), new Date(2026, 6, 1).getTime(), "a day begins in the zone, too");
      assert.equal(range.parsed("2026-07-01T10:20:30Z", false), at);
    }
    assert.ok(Number.isNaN(range.parsed("yesterday", true)));
  } finally {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  }
});
