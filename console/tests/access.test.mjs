// Who reads what: refusals are seen first, and what is typed of tenant keys is what the server is sent.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { load } from "./modules.mjs";

describe("who reads what", () => {
  let table;
  let readers;
  let tenant;
  before(async () => {
    globalThis.location ??= { hash: "#/explore", origin: "http://127.0.0.1", pathname: "/console" };
    globalThis.addEventListener ??= () => undefined;
    table = await load("/src/access/AccessTable.tsx");
    readers = await load("/src/access/SourceReaders.tsx");
    tenant = await load("/src/sources/tenant.ts");
  });

  test("refusals come first, with their reason", () => {
    const read = (source, rows, rest) => ({ source, rows, access: "bound", shared: false, reason: null, by_policy: [], columns: ["id"], ...rest });
    const part = (name, failed, ...sources) => ({ table: name, kind: "grant", read_by: "caller", parameters: [], failed, sources });
    const lines = table.linesOf([
      { endpoint: "own", refused: null, tables: [part("mine", null, read("app", "project = 'abc'"), read("none", "ALL", { access: "all", columns: [] })), part("odd", "no table x")] },
      { endpoint: "other", refused: "not bound", tables: [] },
      { endpoint: "team", refused: null, tables: [part("(body)", null, read(undefined, "REFUSED", { access: "refused", reason: "no key" }))] },
    ]);
    assert.deepEqual(lines.map((line) => [line.endpoint, line.rows, line.what, line.refused]), [
      ["own", "FAILS", "no table x", true],
      ["other", "REFUSED", "not bound", true],
      ["team", "REFUSED", "no key", true],
      ["own", "project = 'abc'", "id", false],
      ["own", "ALL", "(counted only)", false],
    ]);
  });

  test("rules and alerts are readers, and those come first that are refused something", () => {
    const endpoint = (rows, access) => ({ endpoint: "own", refused: null, tables: [{ table: "(body)", kind: "body", read_by: "query", parameters: [], failed: null, sources: [{ source: "app", rows, access, shared: false, reason: null, by_policy: [], columns: ["id"] }] }] });
    const told = readers.readersOf({
      classes: [{ scopes: "query", pinned: ["project"], limits: {}, tokens: 2, private: false, writes: { all: false, sources: [] }, endpoints: [endpoint("project = own", "bound")] }],
      rules: [{ rule: "main/1", scopes: "query", pinned: { team: "/team" }, limits: {}, private: false, writes: { all: false, sources: [] }, endpoints: [endpoint("REFUSED", "refused")] }],
      alerts: [{ alert: "many", endpoint: "own", receiver: "https://hooks.example.com", tenant: {}, paused: false, endpoints: [endpoint("ALL", "all")] }],
    });
    assert.deepEqual(told.map((one) => one.title), [
      "Tokens of the rule main/1: query, pinned: team",
      "2 tokens: query, pinned: project",
      "Alert many of own, to https://hooks.example.com",
    ]);
    assert.ok(told[2].hint.includes("the rows of all"));
  });

  test("tenant keys are typed as a line", () => {
    for (const [text, parsed] of [
      ["", null],
      [" shared ", "shared"],
      ["project=metadata.project  team=team", { project: "metadata.project", team: "team" }],
    ]) {
      assert.deepEqual(tenant.tenantOf(text), { tenant: parsed });
      assert.deepEqual(tenant.tenantOf(tenant.tenantText(parsed)), { tenant: parsed });
    }
    for (const wrong of ["project", "project=", "=a", "a=b a=c", "shared a=b"]) assert.ok("wrong" in tenant.tenantOf(wrong), wrong);
  });
});
