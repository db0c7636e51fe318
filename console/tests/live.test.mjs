// What live mode makes of a stream: a row that is lost, doubled or read wrongly would be a wrong answer.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { before, test } from "node:test";
import { load } from "./modules.mjs";

let EventParser, follow, LiveRows, text;
before(async () => {
  ({ EventParser } = await load("/src/api/events.ts"));
  ({ follow } = await load("/src/api/follow.ts"));
  ({ LiveRows } = await load("/src/result/live.ts"));
  ({ text } = await load("/src/result/format.ts"));
});

const bytes = (text) => new TextEncoder().encode(text);
const TEXT = { kind: "text", name: "STRING" };
const field = (name, kind) => ({ name, type: { kind, name: kind.toUpperCase() } });

test("events are read whatever the pieces are", () => {
  const stream = bytes('\uFEFFid: 7.1.0\ndata: {"a":"ä€𝄞"}\n\n: a comment\nid: 8\n\nevent: live\r\ndata:{"rows"\rdata: :3}\r\n\r\nevent: empty\n\nretry: 5\ndata\nid: 9.0.1\n\nid: 10\ndata: cut');
  const expected = [{ name: "", data: '{"a":"ä€𝄞"}' }, { name: "live", data: '{"rows"\n:3}' }, { name: "", data: "" }];
  for (const size of [stream.length, 1, 2, 3, 5, 7, 11]) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < stream.length; at += size) found.push(...parser.push(stream.subarray(at, at + size)));
    assert.deepEqual(found, expected, `pieces of ${size} bytes`);
    assert.equal(parser.lastId, "9.0.1", "an event that is cut off does not count");
  }
  const parser = new EventParser();
  parser.push(bytes(": alive\nid: 12\n\n"));
  assert.equal(parser.lastId, "12", "a sign of life has the place, too");
});

test("the newest rows are held, as many as fit", () => {
  const live = new LiveRows([field("n", "number")], [], 5, 1000);
  live.push([1, 2, 3].map((n) => `{"n":${n}}`));
  const before = live.result();
  live.push([4, 5, 6, 7].map((n) => `{"n":${n}}`));
  const now = live.result();
  const numbers = (result) => Array.from({ length: result.rows }, (_, row) => result.cell(row, 0));
  assert.deepEqual([numbers(before), before.newest], [[3, 2, 1], 2]);
  assert.deepEqual([numbers(now), now.newest, live.dropped], [[7, 6, 5, 4, 3], 6, 2]);
  assert.equal(before.columns, now.columns);
  live.push([`{"n":8,"long":"${"x".repeat(2000)}"}`]);
  assert.deepEqual([numbers(live.result()), live.dropped], [[8], 7]);
});

test("values have the types of the query, and fields that come later are there", () => {
  const columns = [field("t", "timestamp"), field("d", "date"), field("dt", "datetime"), field("ti", "time"), field("n", "number"), field("f", "number"), { name: "m", type: { kind: "list", name: "RECORD", item: { kind: "record", name: "STRUCT", fields: [{ name: "a", type: TEXT }] } } }];
  const live = new LiveRows(columns, [field("later", "timestamp")]);
  live.push(['{"t":1795426284348313,"d":"2026-11-23","dt":"2026-11-23T09:31:24.348313","ti":"09:31:24.348313","n":-9007199254740993,"f":1.12345678901234567,"m":[{"a":"9007199254740993 \\" 9007199254740993"}]}']);
  live.push(['{"t":null,"later":0,"m":[{"a":"x","b":[1],"constructor":null}],"u":null}', '{"u":{"x":1}}', '{"u":5,"m":[]}']);
  const result = live.result();
  assert.deepEqual(result.columns.map((column) => column.name), ["t", "d", "dt", "ti", "n", "f", "m", "later", "u"]);
  const cell = (row, name) => result.cell(row, result.columns.findIndex((column) => column.name === name));
  assert.equal(cell(3, "n"), -9007199254740993n);
  assert.equal(cell(3, "f"), 1.1234567890123457);
  assert.equal(cell(3, "m")[0].a, '9007199254740993 " 9007199254740993');
  assert.equal(cell(3, "t"), 1795426284348.313);
  assert.deepEqual(["d", "dt", "ti"].map((name) => text(cell(3, name), columns.find((column) => column.name === name).type)), ["2026-11-23", "2026-11-23 09:31:24.348313", "09:31:24.348313"]);
  assert.deepEqual(cell(2, "m"), [{ a: "x", b: [1], constructor: null }]);
  assert.deepEqual([cell(2, "t"), cell(2, "later"), cell(3, "m")[0].constructor], [null, 0, null]);
  assert.deepEqual([cell(2, "u"), cell(1, "u"), cell(0, "u")], [null, '{"x":1}', 5]);
});

test("a stream that breaks off goes on after its last event, and is over when the server says so", async () => {
  const asked = [];
  const answers = [
    (response) => response.write('id: 5-1\ndata: {"n":0}\n\n', () => response.destroy()),
    (response) => response.write('id: 6\ndata: {"n":1}\n\nevent: live\nid: 6\ndata: {"rows":1}\n\n: alive\nid: 7\n\nid: 8.0.0\ndata: {"n":', () => response.destroy()),
    (response) => response.writeHead(503, { "content-type": "application/json" }).end('{"error":{"code":"busy","message":"busy"}}'),
    (response) => response.write('id: 8.0.0\ndata: {"n":2}\n\nevent: end\nid: 8\ndata: {"reason":"endpoint_deleted","message":"gone"}\n\n'),
  ];
  const server = createServer((request, response) => {
    asked.push(request.headers["last-event-id"] ?? "");
    const answer = answers[asked.length - 1];
    if (answer !== answers[2]) response.writeHead(200, { "content-type": "text/event-stream" });
    answer(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  const plain = globalThis.fetch;
  globalThis.fetch = (path, options) => plain(base + path, options);
  try {
    let rows = [];
    const opened = [];
    await follow("logs", {}, new AbortController().signal, {
      opened: (isNew) => { opened.push(isNew); if (isNew) rows = []; },
      events: (events) => { rows.push(...events.filter((event) => event.name === "").map((event) => event.data)); return events.some((event) => event.name === "end"); },
      broken: () => undefined,
    }, [5]);
    assert.deepEqual(asked, ["", "", "7", "7"]);
    assert.deepEqual(opened, [true, true, false]);
    assert.deepEqual(rows, ['{"n":1}', '{"n":2}']);
    // A refusal is told at once.
    answers.push((response) => response.end("a page"), (response) => response.end());
    asked.length = 2;
    await assert.rejects(follow("logs", {}, new AbortController().signal, { opened: () => undefined, events: () => false, broken: () => undefined }, [5]), /busy/);
  } finally {
    globalThis.fetch = plain;
    server.closeAllConnections();
    server.close();
  }
});
