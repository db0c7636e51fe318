// What goes on after an answer: by then the session, the endpoint or the text may be another one, and an answer of the one before would be
// shown as if it were of this one.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { load } from "./modules.mjs";

// The hooks are of these tests only: all files without a browser run as one.
describe("what goes on after an answer", () => {
  let plain;
  let session, api, state, sidebar, past, follow, live;
  /** The requests that were made, each answered when the test says so. */
  let asked = [];

  before(async () => {
    globalThis.location ??= { hash: "#/explore", origin: "http://127.0.0.1", pathname: "/console" };
    globalThis.history ??= { replaceState: () => undefined, pushState: () => undefined };
    globalThis.addEventListener ??= () => undefined;
    session = await load("/src/api/session.ts");
    api = await load("/src/api/document.ts");
    state = await load("/src/explore/state.ts");
    sidebar = await load("/src/explore/Sidebar.tsx");
    past = await load("/src/explore/history.ts");
    live = await load("/src/explore/live.ts");
    ({ follow } = await load("/src/api/follow.ts"));
    plain = globalThis.fetch;
    globalThis.fetch = (path, { body, headers, signal }) => new Promise((resolve, reject) => {
      const json = (value, status = 200) => resolve(new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json" } }));
      asked.push({ path, body: body && JSON.parse(body), key: headers["x-api-key"], signal, answer: json, rows: (result) => json({ result }), fail: reject });
    });
  });
  after(() => {
    globalThis.fetch = plain;
  });
  const described = (...names) => ({ paths: Object.fromEntries(names.map((name) => [name, { get: { tags: ["endpoints"], summary: name, parameters: [], "x-tidegate-tables": ["t"] } }])) });
  beforeEach(() => {
    asked = [];
    session.signIn("a", { scopes: "query" });
    state.clear();
    api.endpoints.value = ["one", "two"].map((name) => ({ name, description: "", parameters: [], tables: ["t"] }));
    state.endpointName.value = "one";
    state.mode.value = "sql";
    state.text.value = "";
    state.range.value = "24h";
    past.forget();
  });

  /** The request that comes next, as soon as it is made. */
  async function next(at) {
    for (let turn = 0; asked.length <= at; turn += 1) {
      assert.ok(turn < 100, "no request was made");
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return asked[at];
  }
  const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

  test("an answer of a former session is dropped", async () => {
    api.endpoints.value = null;
    const former = api.loadEndpoints();
    const first = await next(0);
    session.signOut();
    assert.ok(first.signal.aborted, "the request is broken off");
    session.signIn("b", { scopes: "query" });
    const present = api.loadEndpoints();
    const second = await next(1);
    assert.deepEqual([first.key, second.key], ["a", "b"]);
    second.answer(described("of b"));
    await present;
    // Where it cannot be broken off any more, the answer comes all the same.
    first.answer(described("of a"));
    await assert.rejects(former, { name: "AbortError" });
    assert.deepEqual(api.endpoints.value.map((one) => one.name), ["of b"]);
  });

  test("the refusal of a former session does not end the present one, even with the same token", async () => {
    const former = api.loadEndpoints();
    const first = await next(0);
    session.signOut();
    session.signIn("a", { scopes: "query" });
    first.answer({ error: { code: "unauthorized", message: "revoked" } }, 401);
    await assert.rejects(former, { name: "AbortError" });
    assert.equal(session.token.value, "a");
  });

  test("of two lists of endpoints the later one stays", async () => {
    const [before, after] = [api.loadEndpoints(), api.loadEndpoints()];
    await next(1);
    asked[1].answer(described("new"));
    await after;
    asked[0].answer(described("old"));
    await before;
    assert.deepEqual(api.endpoints.value.map((one) => one.name), ["new"]);
  });

  test("a stream ends with its session, and is not asked for with the token of the next one", async () => {
    const listener = { opened: () => assert.fail("opened"), events: () => false, broken: () => assert.fail("broken") };
    const stream = follow("one", {}, new AbortController().signal, listener, [1]);
    const request = await next(0);
    session.signOut();
    assert.ok(request.signal.aborted);
    session.signIn("b", { scopes: "query" });
    request.fail(new DOMException("aborted", "AbortError"));
    await stream;
    assert.equal(asked.length, 1);
  });

  test("the histogram and the history are of the text that ran, whatever is written meanwhile", async () => {
    state.text.value = "SELECT a FROM u WHERE b = 1";
    const run = state.start();
    const query = await next(0);
    state.text.value = "SELECT nothing yet";
    state.range.value = "1h";
    query.rows([{ a: 1 }]);
    const counted = await next(1);
    assert.match(counted.body.sql, /MIN\(timestamp\).*FROM u\nWHERE b = 1$/s);
    counted.rows([]);
    await run;
    const [entry] = past.history.value;
    assert.equal(entry.text, "SELECT a FROM u WHERE b = 1");
    const address = new URLSearchParams(entry.address.split("?")[1]);
    assert.deepEqual([address.get("q"), address.get("range"), address.get("mode")], [entry.text, "24h", "sql"]);
  });

  test("a mistake is underlined in the text that has it only", async () => {
    const refusal = { error: { code: "invalid", message: "line 1, column 8: no column a", errors: [] } };
    for (const [written, places] of [["SELECT a", 1], ["SELECT b, a", 0]]) {
      asked = [];
      state.text.value = "SELECT a";
      const run = state.start();
      const query = await next(0);
      state.text.value = written;
      query.answer(refusal, 422);
      await run;
      assert.equal(state.failure.value, refusal.error.message);
      assert.equal(state.mistakes.value.length, places);
    }
  });

  test("live mode remembers the text that is followed", async () => {
    state.text.value = "SELECT a FROM u";
    state.isLive.value = true;
    void state.start();
    const columns = await next(0);
    state.text.value = "SELECT else";
    columns.rows([]);
    const stream = await next(1);
    assert.equal(stream.body.sql, "SELECT a FROM u");
    assert.equal(past.history.value[0].text, "SELECT a FROM u");
    state.cancel();
    assert.ok(stream.signal.aborted);
    stream.fail(new DOMException("aborted", "AbortError"));
    assert.equal(live.phase.value, "off");
  });

  test("what is written while the columns are asked for is neither replaced nor run", async () => {
    const begun = sidebar.begin("t");
    const columns = await next(0);
    assert.match(columns.body.sql, /LIMIT 0$/);
    state.text.value = "SELECT mine";
    columns.rows([{ timestamp: 1, event_message: "" }]);
    await begun;
    await settled();
    assert.equal(state.text.value, "SELECT mine");
    assert.equal(asked.length, 1);
  });

  test("a page that was left does not change the address", async () => {
    const addresses = [];
    const { replaceState } = globalThis.history;
    globalThis.history.replaceState = (...given) => addresses.push(given);
    try {
      for (const begin of [() => sidebar.begin("t"), () => ((state.text.value = "SELECT * FROM t"), state.countOverTime())]) {
        asked = [];
        state.clear();
        const begun = begin();
        const columns = await next(0);
        state.leave();
        columns.rows([]);
        await begun;
        assert.deepEqual([addresses, asked.length, state.running.value], [[], 1, false]);
      }
    } finally {
      globalThis.history.replaceState = replaceState;
    }
  });

  test("a link to another endpoint takes nothing of the one before along", async () => {
    state.text.value = "SELECT a FROM u";
    state.tables.value = new Map([["t", [{ name: "of_one", type: { kind: "text", name: "STRING" } }]]]);
    const run = state.start();
    (await next(0)).rows([{ a: 1 }]);
    (await next(1)).rows([]);
    await run;
    assert.equal(state.result.value.rows, 1);
    state.take(new URLSearchParams({ endpoint: "one", q: "SELECT b FROM u" }));
    assert.ok(state.result.value && state.tables.value.size === 1, "the same endpoint keeps them");
    state.take(new URLSearchParams({ endpoint: "two", q: "SELECT b FROM u", live: "1" }));
    assert.deepEqual([state.result.value, state.tables.value.size, state.endpointName.value, state.isLive.value], [null, 0, "two", true]);
  });
});
