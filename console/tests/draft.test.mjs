// What is kept of what was written: over languages, sessions and versions of somebody else; and windows of time that move.
import assert from "node:assert/strict";
import { before, beforeEach, describe, test } from "node:test";
import { load } from "./modules.mjs";

// The hooks are of these tests only: all files without a browser run as one.
describe("what was written and is not saved", () => {
  let drafts, session, draft, windows, counts, state;
  before(async () => {
    globalThis.location ??= { hash: "#/explore", origin: "http://127.0.0.1", pathname: "/console" };
    globalThis.history ??= { replaceState: () => undefined, pushState: () => undefined };
    globalThis.addEventListener ??= () => undefined;
    drafts = await load("/src/drafts.ts");
    session = await load("/src/api/session.ts");
    draft = await load("/src/endpoints/draft.ts");
    windows = await load("/src/query/window.ts");
    counts = await load("/src/query/histogram.ts");
    state = await load("/src/explore/state.ts");
  });
  const holder = { id: "1", description: "", scopes: "private", pinned: null };
  beforeEach(() => {
    session.signIn("a", holder);
    drafts.endDrafts(false);
  });

  test("it ends with the session, unless that ended by itself and goes on for the same holder", () => {
    for (const [because, next, kept] of [[null, holder, false], ["expired", holder, true], ["expired", { ...holder, id: "2" }, false], ["expired", { ...holder, description: "b" }, false]]) {
      session.signIn("a", holder);
      drafts.keepDraft("x", "text");
      session.signOut(because);
      assert.equal(drafts.draftOf("x"), undefined, "nothing is shown without a session");
      session.signIn("b", next);
      assert.equal(drafts.draftOf("x"), kept ? "text" : undefined, JSON.stringify([because, next]));
      drafts.dropDraft("x");
    }
  });

  test("names that objects have anyway are no drafts", () => {
    assert.equal(drafts.draftOf("constructor"), undefined);
  });

  test("what only one of two authors changed is as that one has it", () => {
    const base = { query: "1", description: "a", parameters: [{ name: "p" }], max_limit: 5 };
    const mine = { ...base, query: "2", parameters: [{ name: "p" }] };
    const theirs = { ...base, description: "b", max_limit: 6, query: "3" };
    assert.deepEqual(draft.merged(base, mine, theirs), { query: "2", description: "b", parameters: [{ name: "p" }], max_limit: 6 });
    assert.deepEqual(draft.merged(base, base, theirs), theirs);
  });

  test("another language of Explore gives back what was written in the first one", () => {
    const first = () => "first";
    state.endpointName.value = "one";
    state.mode.value = "sql";
    state.edit({ text: "SELECT mine" });
    state.changeMode("lql", first);
    assert.equal(state.text.value, "first");
    state.edit({ text: "m.level:mine" });
    state.changeMode("saved", first);
    state.changeMode("sql", first);
    assert.equal(state.text.value, "SELECT mine");
    state.changeMode("lql", first);
    assert.equal(state.text.value, "m.level:mine");
    session.signOut();
    assert.deepEqual([state.text.value, state.lastText("one", "sql")], ["", undefined]);
  });

  test("the parameters of a draft are those that are declared, and those that the query uses beside", () => {
    const found = draft.parametersOf({ query: "SELECT @a, '@text', @B -- @comment\nFROM t WHERE x = @b", parameters: [{ name: "A", kind: "timestamp", required: true, default: "now-5m" }] });
    assert.deepEqual(found.map(({ name, required, isTime, preset }) => [name, required, isTime, preset]), [["A", false, true, "now-5m"], ["b", false, false, ""]]);
  });

  test("a window of a view becomes the default of a parameter", () => {
    const bounds = { start: "from", end: "to" };
    const of = (fields, range, known = bounds) => draft.fieldsOfView({ query: "SELECT 1", parameters: [{ name: "from" }, { name: "to" }], redact_pii: false, ...fields }, known, range);
    assert.deepEqual(of({}, "24h").parameters, [{ name: "from", default: "now-24h" }, { name: "to" }]);
    assert.deepEqual(of({}, "2026-01-01T10:00:00.000Z/2026-01-01T10:15:00.000Z").parameters[0], { name: "from", default: "now-15m" });
    assert.deepEqual(of({}, "all").parameters, [{ name: "from" }, { name: "to" }]);
    assert.deepEqual(of({}, "24h", null).parameters, [{ name: "from" }, { name: "to" }]);
    const zoom = (start, seconds) => `timestamp >= TIMESTAMP_MICROS(${start}) AND timestamp < TIMESTAMP_MICROS(${start + seconds * 1_000_000})`;
    const once = of({ query: `SELECT 1 FROM t WHERE ${zoom(5_000_000, 300)} ORDER BY 1` }, "all", null);
    assert.equal(once.query, "SELECT 1 FROM t WHERE timestamp >= @since ORDER BY 1");
    assert.deepEqual(once.parameters.at(-1), { name: "since", kind: "timestamp", default: "now-5m" });
    const twice = of({ query: `SELECT 1 FROM t WHERE ${zoom(5_000_000, 300)}\n  AND ${zoom(6_000_000, 60)}`, parameters: [{ name: "Since" }] }, "all", null);
    assert.equal(twice.query, "SELECT 1 FROM t WHERE timestamp >= @since_");
    assert.equal(twice.parameters.at(-1).default, "now-1m");
  });

  test("windows are said as people say them", () => {
    assert.deepEqual([300_000, 86_400_000, 604_800_000, 2_592_000_000, 90_000, 1_500, 0].map(windows.windowOf), ["now-5m", "now-24h", "now-1w", "now-30d", "now-90s", "now-2s", "now-1s"]);
    assert.deepEqual(["now-5m", "now-1h", "now-24h", " now-7d ", "now", "now-5x", "2026-01-01", ""].map(windows.windowInWords), ["the last 5 minutes", "the last hour", "the last 24 hours", "the last 7 days", null, null, null, null]);
  });

  test("the newest bar is whole, though it goes on after now", () => {
    const range = { start: 1_000_030_000, end: 1_000_930_000 };
    const { range: shown, times, width } = counts.bars(range, 60_000, []);
    assert.ok(shown.start <= times[0] && shown.end >= times.at(-1) + width, JSON.stringify(shown));
    assert.ok(shown.start <= range.start && shown.end >= range.end);
  });
});
