// The console in a real browser, as its users use it. The service is started by the caller, on a fresh folder.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { launch, reads, signIn, write, written } from "./browser.mjs";

const base = process.env.TIDEGATE_URL;
const token = process.env.TIDEGATE_PRIVATE_ACCESS_TOKEN;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EVIL = '<img src=x onerror="window.broken=1">';
const HOUR = 3_600_000;

let browser;
let context;
let page;
/** What the page said and asked for, of all pages. */
const said = [];
const asked = new Set();

async function api(method, path, body, key = token) {
  const response = await fetch(base + path, { method, headers: { "x-api-key": key, "content-type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : null };
}

async function made(path, body) {
  const answer = await api("POST", path, body);
  assert.ok(answer.status < 300, JSON.stringify(answer.body));
  return answer.body;
}

/** A page on which everything that is said and asked for is written down. */
async function opened(own = context) {
  const page = await own.newPage();
  page.on("console", (message) => {
    // The browser itself reports answers of an error status; tests make some on purpose.
    if (!/^Failed to load resource: the server responded with a status of 4\d\d/.test(message.text())) said.push(`${message.type()}: ${message.text()} (${message.location().url}:${message.location().lineNumber}:${message.location().columnNumber})`);
  });
  page.on("pageerror", (error) => said.push(`error: ${error.stack}`));
  page.on("request", (request) => asked.add(new URL(request.url()).protocol === "blob:" ? base : new URL(request.url()).origin));
  page.setDefaultTimeout(15_000);
  return page;
}

/** No finding of axe that matters. */
async function accessible(name) {
  await page.evaluate(axe);
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], preload: false }));
    const serious = violations.filter((one) => one.impact === "serious" || one.impact === "critical");
    assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`), [], `axe on ${name}, ${colorScheme}`);
  }
}

const explore = (query) => `${base}/console#/explore?${new URLSearchParams({ endpoint: "logs.all", "p.project": "p1", ...query })}`;
const rows = async () => Number(await page.locator(".table").getAttribute("data-rows"));
const idle = () => page.locator(".results[aria-busy=false]").waitFor();

before(async () => {
  const now = Date.now();
  const log = (project, at, n) => ({ id: `${project}-${n}`, project, timestamp: new Date(at).toISOString(), event_message: n === 0 ? EVIL : `message ${n} of ${project}`, metadata: { level: n % 5 === 0 ? "error" : "info", request: { path: `/path/${n % 3}` }, [EVIL]: "named badly" } });
  const events = Array.from({ length: 300 }, (_, n) => log("p1", now - (n / 300) * 5 * HOUR - 60_000, n));
  const answer = await fetch(`${base}/api/logs?source_name=postgres.logs`, { method: "POST", headers: { "x-api-key": token, "content-type": "application/json" }, body: JSON.stringify([...events, ...Array.from({ length: 7 }, (_, n) => log("p2", now - n * 60_000, n + 1))]) });
  assert.equal(answer.status, 200, await answer.text());
  browser = await launch();
  context = await browser.newContext({ viewport: { width: 1360, height: 900 }, acceptDownloads: true });
  page = await opened();
});

after(async () => {
  await browser?.close();
});

test("a wrong token is refused, a right one opens the console, and the address never has it", async () => {
  await page.goto(`${base}/console`);
  await accessible("sign-in");
  await page.getByLabel("Access token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("unknown, revoked or expired").waitFor();
  await signIn(page, token);
  await page.goto(explore({}));
  assert.ok(!page.url().includes(token));
  assert.equal((await context.cookies()).length, 0);
});

test("each key is kept, however fast they come, in every editor and field", { timeout: 120_000 }, async () => {
  const text = "SELECT id, event_message FROM postgres_logs LIMIT 7";
  for (const delay of [0, 5, 40, 200]) {
    const typed = delay < 100 ? text : text.slice(0, 12);
    await write(page, " ");
    await page.keyboard.press("Backspace");
    await page.keyboard.type(typed, { delay });
    // A stale text would come back with the next renderings.
    await page.waitForTimeout(150);
    assert.equal(await written(page), typed, `${delay} ms a key`);
  }
  await page.goto(`${base}/console#/endpoints/new/endpoint`);
  const name = page.getByLabel("Name", { exact: true }).first();
  for (const delay of [0, 5]) {
    await name.fill("");
    await name.pressSequentially("typed.name", { delay });
    assert.equal(await name.inputValue(), "typed.name");
    await write(page, " ");
    await page.keyboard.press("Backspace");
    await page.keyboard.type(text, { delay });
    await page.waitForTimeout(150);
    assert.equal(await written(page), text, `a new endpoint, ${delay} ms a key`);
  }
  await page.goto(explore({}));
});

test("a mistake is underlined at its place, with the server's hint", async () => {
  await write(page, "SELECT timestamp, event_mesage\nFROM postgres_log");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("alert").getByText("did you mean postgres_logs").waitFor();
  const underlined = page.locator("[data-editor] .cm-lintRange-error");
  await underlined.waitFor();
  assert.equal(await underlined.innerText(), "postgres_log");
  await accessible("explore with a mistake");
});

test("pipe operators are offered as they are written, and a mistake behind a pipe is underlined there", async () => {
  await write(page, " ");
  await page.keyboard.press("Backspace");
  const offered = page.locator("[data-editor] .cm-tooltip-autocomplete li");
  await page.keyboard.type("FROM postgres_logs\n|> ");
  await offered.filter({ hasText: "rows that meet a condition" }).waitFor();
  await page.keyboard.type("AGG");
  await offered.filter({ hasText: "one row for each group" }).waitFor();
  // Keys that come at once with the list are not meant for it.
  await page.waitForTimeout(200);
  await page.keyboard.press("Enter");
  await page.keyboard.type("COUNT(*) AS n GROUP BY event_message\n|> WHERE ");
  await page.keyboard.press("Control+Space");
  await offered.filter({ hasText: "n" }).first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.type("m > 1");
  await page.keyboard.press("Control+Enter");
  assert.equal(await written(page), "FROM postgres_logs\n|> AGGREGATE COUNT(*) AS n GROUP BY event_message\n|> WHERE m > 1");
  await page.getByRole("alert").getByText("there is no column m").waitFor();
  const underlined = page.locator("[data-editor] .cm-lintRange-error");
  await underlined.waitFor();
  assert.equal(await underlined.innerText(), "m");
  await write(page, "FROM postgres_logs\n|> WHERE event_message LIKE 'message %'\n|> SELECT timestamp, event_message\n|> ORDER BY timestamp DESC\n|> LIMIT 500");
  await page.keyboard.press("Control+Enter");
  await page.locator(".table[data-rows='299']").waitFor();
  await page.locator(".histogram[data-total='299']").waitFor();
});

test("the keys are listed behind ?, and a password manager can keep the token", async () => {
  await page.locator(".table").focus();
  await page.keyboard.press("?");
  const sheet = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await sheet.getByText("Run the query").waitFor();
  await accessible("the sheet of keys");
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "detached" });
  // In the editor it is a sign.
  await write(page, "");
  await page.keyboard.type("SELECT '?'");
  assert.equal(await sheet.count(), 0);
  await page.getByRole("button", { name: "Keyboard shortcuts" }).click();
  await sheet.getByRole("button", { name: "Close" }).click();
  await sheet.waitFor({ state: "detached" });
  const own = await browser.newContext();
  const other = await opened(own);
  await other.goto(`${base}/console`);
  assert.equal(await other.getByLabel("Access token").getAttribute("autocomplete"), "current-password");
  assert.equal(await other.locator("form input[autocomplete=username]").inputValue(), "Tidegate");
  await own.close();
});

test("the right statement gives rows, a tree, and text where others wrote code", async () => {
  await write(page, "SELECT timestamp, event_message, metadata\nFROM postgres_logs\nORDER BY timestamp DESC\nLIMIT 500");
  await page.keyboard.press("Control+Enter");
  await page.locator(".table[data-rows='300']").waitFor();
  await page.locator(".histogram[data-total='300']").waitFor();
  await page.getByRole("row").filter({ hasText: "<img src=x" }).first().click();
  const detail = page.getByRole("complementary", { name: "Row" });
  await detail.waitFor();
  assert.ok((await detail.innerText()).includes(EVIL), "the message and the name of the field are text");
  await accessible("explore with a row");
  await page.locator(".table").focus();
  await page.keyboard.press("ArrowDown");
  await detail.getByRole("heading", { name: "Row 2 of 300" }).waitFor();
});

test("a value is filtered for by a click, and the address shows the same again", async () => {
  await page.getByRole("button", { name: "Only rows with this value of metadata.request.path" }).click({ force: true });
  await page.locator(".table[data-rows='100']").waitFor();
  assert.match(await written(page), /WHERE metadata\[SAFE_OFFSET\(0\)\]\.request\[SAFE_OFFSET\(0\)\]\.path = '\/path\/1'/);
  const other = await opened();
  await other.goto(`${base}/console`);
  await signIn(other, token);
  await other.goto(page.url());
  await other.locator(".table[data-rows='100']").waitFor();
  await other.close();
});

test("a value of a field at the side is filtered for by a click, in a query that groups too", async () => {
  await page.goto(explore({ q: "FROM postgres_logs\n|> AGGREGATE COUNT(*) AS n GROUP BY event_message" }));
  await page.reload();
  await page.locator(".table[data-rows='300']").waitFor();
  const table = page.locator(".fields").filter({ has: page.getByText("postgres_logs", { exact: true }) });
  await table.locator("summary").first().click();
  await table.getByText("metadata.level").click();
  const value = table.getByTitle("Only rows where metadata.level is error");
  await value.waitFor();
  await accessible("the fields of a table");
  await value.click();
  await page.locator(".table[data-rows='60']").waitFor();
  assert.equal(await written(page), "FROM postgres_logs\n|> WHERE metadata[SAFE_OFFSET(0)].level = 'error'\n|> AGGREGATE COUNT(*) AS n GROUP BY event_message");
});

test("a link counts by severity, though the columns of its table come late", async () => {
  const other = await opened();
  await other.route(/\/query\/logs\.all/, async (route) => {
    const request = decodeURIComponent(`${route.request().url()} ${route.request().postData() ?? ""}`).replaceAll("+", " ");
    if (/FROM `?postgres_logs`? LIMIT 0/.test(request)) await new Promise((resolve) => setTimeout(resolve, 700));
    await route.continue();
  });
  await other.goto(`${base}/console`);
  await signIn(other, token);
  await other.goto(explore({ q: "SELECT timestamp, event_message FROM postgres_logs LIMIT 500" }));
  await other.locator(".histogram[data-total='300']").getByText("error", { exact: true }).waitFor();
  await other.close();
});

test("a drag over the histogram zooms, and the saved view is narrower", async () => {
  await page.goto(explore({ range: "6h", q: "SELECT timestamp, event_message FROM postgres_logs LIMIT 500" }));
  await page.reload();
  await page.locator(".histogram[data-total='300'] .u-over").waitFor();
  await idle();
  const box = await page.locator(".histogram .u-over").boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.75, box.y + 20, { steps: 6 });
  await page.mouse.up();
  await page.waitForURL(/range=\d{4}-\d\d-\d\dT/);
  await idle();
  await page.waitForFunction(() => Number(document.querySelector(".table")?.dataset.rows) < 100);
  assert.ok((await rows()) > 10, `${await rows()} rows`);
  await page.goBack();
  await page.locator(".table[data-rows='300']").waitFor();
  await page.goForward();
  await page.waitForFunction(() => Number(document.querySelector(".table")?.dataset.rows) < 100);
});

test("a result is downloaded as the server writes it", async () => {
  const wait = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  await page.getByRole("button", { name: "CSV" }).click();
  const text = readFileSync(await (await wait).path(), "utf8");
  assert.match(text.split("\n")[0], /^timestamp,event_message/);
  assert.equal(text.trim().split("\n").length, (await rows()) + 1);
});

test("ten thousand rows scroll, and few of them are in the page", async () => {
  await made("/api/endpoints", { name: "many", query: "SELECT n FROM UNNEST(GENERATE_ARRAY(1, 10000)) AS n ORDER BY n", max_limit: 10000, sandboxable: false });
  await page.goto(`${base}/console#/explore?endpoint=many&mode=saved`);
  await page.reload();
  await page.locator(".table[data-rows='10000']").waitFor();
  await page.locator(".table").focus();
  await page.keyboard.press("End");
  await page.getByRole("gridcell", { name: "10000", exact: true }).waitFor();
  assert.ok((await page.locator(".table-row").count()) < 120);
});

test("LQL and charts", async () => {
  await page.goto(explore({ mode: "lql", q: "f:postgres_logs m.level:error s:timestamp s:event_message" }));
  await page.reload();
  await page.locator(".table[data-rows='60']").waitFor();
  await page.locator(".table-row").nth(1).click({ position: { x: 40, y: 10 } });
  await page.getByRole("button", { name: "Only rows with this value of event_message" }).click({ force: true });
  await page.locator(".table[data-rows='1']").waitFor();
  await page.goto(explore({ view: "chart", q: "SELECT timestamp, event_message FROM postgres_logs WHERE metadata[SAFE_OFFSET(0)].level = 'error' LIMIT 500" }));
  // Rows without numbers are drawn over time, and no histogram of the same stands above.
  await page.locator(".chart canvas").waitFor();
  assert.equal(await page.locator(".histogram canvas").count(), 0);
  await accessible("rows over time as a chart");
  await page.getByRole("button", { name: "Count these rows over time" }).click();
  await page.getByRole("group", { name: "Kind of chart" }).waitFor();
  assert.match(await written(page), /AS hour,[^]*AS level,[^]*WHERE metadata\[SAFE_OFFSET\(0\)\]\.level = 'error'\nGROUP BY hour, level/);
  await page.goto(explore({ view: "chart", q: "SELECT TIMESTAMP_TRUNC(timestamp, HOUR) AS hour, metadata[SAFE_OFFSET(0)].level AS level, COUNT(*) AS n FROM postgres_logs GROUP BY hour, level" }));
  await page.locator(".chart canvas").waitFor();
  await accessible("a chart over time");
  await page.goto(explore({ view: "chart", q: "SELECT metadata[SAFE_OFFSET(0)].level AS level, COUNT(*) AS n FROM postgres_logs GROUP BY level" }));
  await page.locator(".chart .bars").getByText("error").waitFor();
  await accessible("a chart of names");
});

test("an endpoint is saved with a warning, tried, changed, and rolled back", async () => {
  await page.goto(`${base}/console#/endpoints/new/endpoint`);
  await page.getByLabel("Name", { exact: true }).first().fill("console.try");
  await write(page, "WITH logs AS (SELECT id, event_message, metdata FROM `postgres.logs` WHERE project = @project)\nSELECT id, event_message, metdata FROM logs");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("no log has had metdata").first().waitFor();
  await accessible("a new endpoint");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("heading", { name: "console.try" }).waitFor();
  await write(page, "WITH logs AS (SELECT id, event_message FROM `postgres.logs` WHERE project = @project)\nSELECT id, event_message FROM logs");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("as version 2").waitFor();
  await page.getByRole("button", { name: "Save as a new version" }).click();
  await page.getByText("version 2", { exact: true }).waitFor();
  await page.getByRole("tab", { name: "Try it" }).click();
  await page.getByLabel("project *").fill("p2");
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".table[data-rows='7']").waitFor();
  assert.match(await page.getByRole("status").first().textContent(), /read \d+ rows/);
  await accessible("trying an endpoint");
  await page.getByRole("tab", { name: "Call it" }).click();
  await page.getByText("process.env.TIDEGATE_TOKEN").waitFor();
  await accessible("calling an endpoint");
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.locator(".cm-deletedChunk").first().waitFor();
  await page.getByRole("button", { name: /version 1/ }).click();
  await accessible("versions");
  await page.getByRole("button", { name: "Roll back to version 1" }).click();
  await page.getByText("version 3", { exact: true }).first().waitFor();
  const { body } = await api("GET", "/api/endpoints/console.try");
  assert.ok(body.query.includes("metdata") && body.version === 3);
});

test("a query of Explore is saved as an endpoint over the same tables", async () => {
  await page.goto(explore({ q: "SELECT metadata[SAFE_OFFSET(0)].level AS level, COUNT(*) AS n FROM postgres_logs GROUP BY level ORDER BY n" }));
  await page.reload();
  await page.locator(".table[data-rows='2']").waitFor();
  await page.getByRole("button", { name: "Save as endpoint" }).click();
  // The statement is what is looked at; the tables before it are folded, and there.
  const folded = page.locator("[data-editor] .cm-foldPlaceholder");
  await folded.getByText("lines of granted tables").waitFor();
  assert.match(await written(page), /\nWITH… \d+ lines of granted tables\nSELECT metadata\[SAFE_OFFSET\(0\)\]\.level AS level/);
  await accessible("a new endpoint over folded tables");
  await folded.click();
  await folded.waitFor({ state: "detached" });
  assert.match(await written(page), /postgres_logs AS \(/);
  await page.getByLabel("Name", { exact: true }).first().fill("console.levels");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("as the new endpoint console.levels").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("tab", { name: "Try it" }).click();
  await page.getByLabel("project *").fill("p1");
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".table[data-rows='2']").waitFor();
  await page.getByRole("tab", { name: "Chart" }).click();
  await page.locator(".bars").getByText("error").waitFor();
  await page.goto(`${base}/console#/endpoints/console.try`);
});

test("an alert is made in words, tried, run and deleted", async () => {
  await page.goto(`${base}/console#/endpoints/console.levels/alerts`);
  await page.reload();
  await page.getByText("No alert yet").waitFor();
  await accessible("alerts of an endpoint without any");
  await page.getByRole("button", { name: "New alert" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("many");
  await dialog.getByLabel("project *").fill("p1");
  await dialog.getByLabel("Compare").selectOption("column");
  await dialog.getByLabel("Column", { exact: true }).fill("m");
  await dialog.getByLabel("Number", { exact: true }).fill("100");
  await dialog.getByLabel("Webhook").fill("http://127.0.0.1:9/hook?key=secret");
  await dialog.getByLabel("Wait between messages (minutes)").fill("30");
  await dialog.getByText("When m is more than 100 in any row, a message is sent to 127.0.0.1:9, once until it is over.").waitFor();
  await accessible("a new alert");
  await dialog.getByRole("button", { name: "Save the alert" }).click();
  await dialog.getByText("the answer has no column m").waitFor();
  await dialog.getByLabel("Column", { exact: true }).fill("n");
  await dialog.getByRole("button", { name: "Save the alert" }).click();
  assert.match(await page.locator("[data-secret]").innerText(), /^tgs_/);
  await page.getByRole("button", { name: "Close" }).click();
  const alert = page.getByRole("region", { name: "Alert many" });
  await page.locator("[data-alert-state=firing]").waitFor();
  await alert.getByRole("button", { name: "Send a test of many" }).click();
  await alert.getByRole("alert").getByText("no address of the public internet").waitFor();
  await alert.getByRole("button", { name: "Run now: many" }).click();
  await alert.getByText("The condition holds now.").waitFor();
  await alert.getByText("The last 2 runs").click();
  await alert.getByRole("cell", { name: "it fires: a message is sent" }).waitFor();
  await accessible("an alert that fires");
  await alert.getByRole("button", { name: "Change many" }).click();
  await dialog.getByLabel("Number", { exact: true }).fill("100000");
  await dialog.getByRole("button", { name: "Save the alert" }).click();
  await page.locator("[data-alert-state=quiet]").waitFor();
  await alert.getByRole("button", { name: "Delete many" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No alert yet").waitFor();
  const { body } = await api("GET", "/api/endpoints/console.levels");
  assert.deepEqual([body.alerts, body.version], [[], 4]);
  await page.goto(`${base}/console#/endpoints/console.try`);
});

test("a syntax error in a saved query is underlined", async () => {
  await page.getByRole("tab", { name: "Query" }).click();
  await write(page, "SELECT id FORM `postgres.logs`");
  await page.getByRole("button", { name: "Check" }).click();
  await page.locator("[data-editor] .cm-lintRange-error").waitFor();
});

test("only the text that was checked can be saved", async () => {
  const own = await opened();
  let held = [];
  await own.route("**/api/endpoints/*/check", (route) => held.push(route));
  await own.goto(`${base}/console#/endpoints/console.try`);
  await signIn(own, token);
  const save = own.getByRole("button", { name: "Save as a new version" });
  const until = async (count) => { for (let turn = 0; held.length < count; turn += 1) { assert.ok(turn < 200, "no check was asked for"); await new Promise((resolve) => setTimeout(resolve, 25)); } };
  const query = (name) => `WITH logs AS (SELECT id, event_message FROM \`postgres.logs\` WHERE project = @project)\nSELECT id AS ${name} FROM logs`;
  await write(own, query("checked"));
  await own.getByRole("button", { name: "Check" }).click();
  await until(1);
  await write(own, query("other"));
  await held[0].continue().catch(() => {});
  await own.waitForTimeout(500);
  assert.ok(await save.isDisabled(), "the answer is about another text");
  // The check of the other text does not wait for the first one.
  await own.getByRole("button", { name: "Check" }).click();
  await until(2);
  await held[1].continue();
  await own.getByText("as version").waitFor();
  assert.ok(await save.isEnabled());
  await own.close();
});

/** Opens a page of its own, signed in. */
async function signedIn(hash) {
  const own = await opened();
  await own.goto(`${base}/console#/${hash}`);
  await signIn(own, token);
  return own;
}

/** Types a text into the editor in place of what is there. */
async function typeOver(own, text) {
  const editor = own.locator("[data-editor] .cm-content").first();
  await editor.click();
  await own.keyboard.press("Control+a");
  await own.keyboard.press("Delete");
  // Completion would take the Enter of a line.
  await own.keyboard.type(text.replaceAll("\n", " "), { delay: 2 });
  await own.keyboard.press("Escape");
}

const QUERY = (name) => `WITH logs AS (SELECT id, event_message FROM \`postgres.logs\` WHERE project = @project) SELECT id AS ${name} FROM logs`;

test("somebody else's version is not replaced: what differs is shown, and nobody's text is lost", { timeout: 120_000 }, async () => {
  await made("/api/endpoints", { name: "console.two", query: QUERY("first"), parameters: [{ name: "project", required: true }] });
  const theirs = (fields) => api("PUT", "/api/endpoints/console.two", fields);
  const shown = async () => (await api("GET", "/api/endpoints/console.two")).body;
  const own = await signedIn("endpoints/console.two");
  const conflict = own.getByRole("region", { name: "What differs" });
  await typeOver(own, QUERY("mine"));
  assert.equal((await theirs({ query: QUERY("theirs"), description: "of theirs" })).body.version, 2);
  await own.getByRole("button", { name: "Check" }).click();
  await conflict.getByText("Version 2 was saved").waitFor();
  await conflict.locator(".cm-deletedChunk").first().waitFor();
  assert.equal(await written(own), QUERY("mine"), "the text is still there");
  assert.ok(await own.getByRole("button", { name: "Save as a new version" }).isDisabled());
  // Also over a reload.
  await own.reload();
  await conflict.getByRole("button", { name: "Take version 2" }).click();
  await own.waitForFunction((text) => document.querySelector("[data-editor]")?.shadowRoot?.querySelector(".cm-content")?.textContent === text, QUERY("theirs"));
  await own.getByRole("button", { name: "Restore it" }).click();
  await own.waitForFunction((text) => document.querySelector("[data-editor]")?.shadowRoot?.querySelector(".cm-content")?.textContent === text, QUERY("mine"));
  // The race between the check and the save.
  await own.getByRole("button", { name: "Check" }).click();
  await own.getByText("as version 3").waitFor();
  await theirs({ max_limit: 7 });
  await own.getByRole("button", { name: "Save as a new version" }).click();
  await conflict.getByText("Version 3 was saved").waitFor();
  assert.equal((await shown()).query, QUERY("theirs"), "nothing was replaced");
  await conflict.getByRole("button", { name: "Keep mine, over version 3" }).click();
  await own.getByRole("button", { name: "Check" }).click();
  await own.getByText("as version 4").waitFor();
  await own.getByRole("button", { name: "Save as a new version" }).click();
  await own.getByText("version 4", { exact: true }).waitFor();
  const { query, description, max_limit, version } = await shown();
  assert.deepEqual([query, description, max_limit, version], [QUERY("mine"), "of theirs", 7, 4], "what only they changed is as they have it");
  await own.getByText("not saved").waitFor({ state: "detached" });
  // Another alert is a version too, but none of this form.
  await typeOver(own, QUERY("later"));
  await made("/api/endpoints/console.two/alerts", { name: "theirs", every_minutes: 60, condition: "rows > 5", url: "http://127.0.0.1:9/", parameters: { project: "p1" } });
  await own.reload();
  await own.getByRole("button", { name: "Check" }).click();
  await own.getByText("as version 6").waitFor();
  assert.equal(await conflict.count(), 0);
  await own.close();
});

test("an alert and the settings of a source that somebody else changed are not replaced", async () => {
  const own = await signedIn("endpoints/console.two/alerts");
  await own.getByRole("button", { name: "Change theirs" }).click();
  const dialog = own.getByRole("dialog");
  await dialog.getByLabel("Wait between messages (minutes)").fill("40");
  await api("PATCH", "/api/endpoints/console.two/alerts/theirs", { condition: "rows > 6" });
  await dialog.getByRole("button", { name: "Save the alert" }).click();
  await dialog.getByText("theirs was changed by somebody else").waitFor();
  await dialog.getByRole("button", { name: "Keep mine" }).click();
  await dialog.getByRole("button", { name: "Save the alert" }).click();
  await dialog.waitFor({ state: "detached" });
  const { condition, again_after_minutes } = (await api("GET", "/api/endpoints/console.two/alerts/theirs")).body;
  assert.deepEqual([condition, again_after_minutes], ["rows > 6", 40]);

  await made("/api/sources", { name: "app.two" });
  await own.goto(`${base}/console#/sources/app.two`);
  await own.getByRole("tab", { name: "Settings" }).click();
  await own.getByLabel("Keep rows for (days)").fill("9");
  await api("PATCH", "/api/sources/app.two", { retention_days: 8 });
  await own.getByRole("button", { name: "Save" }).click();
  await own.getByText("app.two was changed by somebody else").waitFor();
  assert.equal((await api("GET", "/api/sources/app.two")).body.retention_days, 8);
  await own.getByRole("tab", { name: "Fields" }).click();
  await own.getByRole("tab", { name: "Settings" }).click();
  assert.equal(await own.getByLabel("Keep rows for (days)").inputValue(), "9");
  await own.getByRole("button", { name: "Keep mine" }).click();
  await own.getByRole("button", { name: "Save" }).click();
  await own.getByText("Saved.").waitFor();
  assert.equal((await api("GET", "/api/sources/app.two")).body.retention_days, 9);
  await own.close();
});

test("what is written is kept over tabs, pages and a reload, is run by Try it, and goes at sign-out", { timeout: 120_000 }, async () => {
  const own = await signedIn("endpoints/console.two");
  const draft = QUERY("drafted");
  await typeOver(own, draft);
  await own.getByText("not saved").waitFor();
  await own.getByRole("tab", { name: "Try it" }).click();
  await own.getByText("This runs your draft").waitFor();
  await own.getByLabel("project *").pressSequentially("p2");
  await own.getByRole("button", { name: "Run" }).click();
  await own.getByRole("columnheader", { name: "drafted" }).waitFor();
  assert.equal((await api("GET", "/api/endpoints/console.two")).body.query, QUERY("mine"));
  await own.getByRole("tab", { name: "Query" }).click();
  await reads(own, draft);
  await own.getByRole("link", { name: "Sources" }).click();
  await own.goBack();
  await own.locator("[data-editor] .cm-line").first().waitFor();
  await reads(own, draft);
  await own.reload();
  await own.locator("[data-editor] .cm-line").first().waitFor();
  await reads(own, draft);
  await own.getByRole("tab", { name: "Try it" }).click();
  assert.equal(await own.getByLabel("project *").inputValue(), "p2");

  // A new one.
  await own.goto(`${base}/console#/endpoints/new/endpoint`);
  await own.getByLabel("Name", { exact: true }).first().pressSequentially("console.new");
  await typeOver(own, "SELECT 41 + 1 AS answer");
  await own.getByRole("link", { name: "Try the draft" }).click();
  await own.getByLabel("project *").pressSequentially("p1");
  await own.getByRole("button", { name: "Run" }).click();
  await own.getByRole("gridcell", { name: "42", exact: true }).waitFor();
  await own.reload();
  await own.getByRole("link", { name: "Back to the query" }).click();
  await own.locator("[data-editor] .cm-line").first().waitFor();
  assert.deepEqual([await written(own), await own.getByLabel("Name", { exact: true }).first().inputValue()], ["SELECT 41 + 1 AS answer", "console.new"]);
  // Discarding puts aside.
  await own.getByRole("button", { name: "Discard my changes" }).click();
  await own.getByRole("button", { name: "Restore it" }).click();
  await own.waitForFunction(() => document.querySelector("[data-editor]")?.shadowRoot?.textContent.includes("41 + 1"));

  // Explore: languages, a reload, another page.
  const sql = "SELECT id, event_message FROM postgres_logs LIMIT 3";
  await own.goto(explore({ q: "SELECT id FROM postgres_logs LIMIT 2" }));
  await own.locator(".table[data-rows='2']").waitFor();
  await typeOver(own, sql);
  await own.getByRole("button", { name: "LQL", exact: true }).click();
  await typeOver(own, "f:postgres_logs m.level:error");
  await own.getByRole("button", { name: "SQL", exact: true }).click();
  await reads(own, sql);
  await own.getByRole("button", { name: "LQL", exact: true }).click();
  await reads(own, "f:postgres_logs m.level:error");
  await own.getByRole("button", { name: "SQL", exact: true }).click();
  await own.reload();
  await own.locator("[data-editor] .cm-line").first().waitFor();
  await reads(own, sql, "a reload keeps what has not run");
  await own.getByRole("link", { name: "Status" }).click();
  await own.getByRole("link", { name: "Explore" }).click();
  await own.locator("[data-editor] .cm-line").first().waitFor();
  await reads(own, sql);
  // What something else takes the place of is in the history.
  await own.getByLabel("Endpoint", { exact: true }).selectOption("many");
  await own.getByLabel("Endpoint", { exact: true }).selectOption("logs.all");
  await own.waitForFunction((text) => document.querySelector("[data-editor]")?.shadowRoot?.textContent.includes(text), "LIMIT 3");
  await own.getByRole("button", { name: "History" }).click();
  const entry = own.locator(".history-entry").filter({ hasText: "not run" }).first();
  await entry.waitFor();
  assert.match(await entry.innerText(), /LIMIT 3[^]*Last 24 hours, project = p1/);
  await own.keyboard.press("Escape");

  await own.getByRole("button", { name: "Sign out" }).click();
  await own.getByLabel("Access token").waitFor();
  assert.equal(await own.evaluate(() => sessionStorage.length), 0);
  assert.equal(await own.evaluate(() => Object.values(localStorage).join().includes("SELECT")), false);
  assert.ok(!own.url().includes("SELECT"), own.url());
  await signIn(own, token);
  await own.getByRole("button", { name: "History" }).click();
  assert.equal(await own.locator(".history-entry").filter({ hasText: "LIMIT 3" }).count(), 0);
  await own.goto(`${base}/console#/endpoints/console.two`);
  await own.locator("[data-editor] .cm-line").first().waitFor();
  await reads(own, QUERY("mine"));
  await own.close();
});

test("deleting is no key pressed twice, and names of endpoints and sources must be typed", async () => {
  const own = await signedIn("endpoints/console.two");
  const there = async (path) => (await api("GET", path)).status === 200;
  for (const [page, button, path, name] of [
    ["endpoints/console.two", "Delete", "/api/endpoints/console.two", "console.two"],
    ["sources/app.two", "Delete", "/api/sources/app.two", "app.two"],
    ["endpoints/console.two/alerts", "Delete theirs", "/api/endpoints/console.two/alerts/theirs", null],
  ].reverse()) {
    await own.goto(`${base}/console#/${page}`);
    if (page.startsWith("sources")) await own.getByRole("tab", { name: "Settings" }).click();
    const remove = own.getByRole("button", { name: button, exact: true });
    await remove.waitFor();
    await remove.focus();
    await own.keyboard.press("Enter");
    await own.getByRole("dialog").waitFor();
    assert.equal(await own.evaluate(() => document.activeElement?.textContent), "Cancel");
    await own.keyboard.press("Enter");
    await own.getByRole("dialog").waitFor({ state: "detached" });
    assert.ok(await there(path), path);
    await remove.click();
    const verb = own.getByRole("dialog").getByRole("button", { name: "Delete" });
    if (name !== null) {
      assert.ok(await verb.isDisabled());
      await own.getByLabel(`Type ${name} to delete it`).pressSequentially(name.slice(0, -1));
      assert.ok(await verb.isDisabled());
      await own.keyboard.press("Enter");
      assert.ok(await there(path), path);
      await own.getByLabel(`Type ${name} to delete it`).pressSequentially(name.slice(-1));
    }
    const done = own.waitForResponse((response) => response.request().method() === "DELETE");
    await verb.click();
    assert.equal((await done).status(), 204);
    assert.ok(!(await there(path)), path);
  }
  await own.close();
});

test("an alert asks for the last minutes, and the window of Explore moves along in an endpoint", async () => {
  const own = await signedIn(`explore?${new URLSearchParams({ endpoint: "logs.all", "p.project": "p1", range: "6h", q: "SELECT COUNT(*) AS n FROM postgres_logs" })}`);
  await own.locator(".table[data-rows='1']").waitFor();
  await own.getByRole("button", { name: "Save as endpoint" }).click();
  await own.getByLabel("Name", { exact: true }).first().pressSequentially("console.window");
  await own.getByRole("button", { name: "Check" }).click();
  await own.getByText("as the new endpoint console.window").waitFor();
  await own.getByRole("button", { name: "Save", exact: true }).click();
  await own.getByRole("tab", { name: "Alerts" }).click();
  const { parameters, query } = (await api("GET", "/api/endpoints/console.window")).body;
  assert.equal(parameters.find((one) => one.name === "iso_timestamp_start").default, "now-6h");
  assert.ok(!/TIMESTAMP_MICROS/.test(query));
  await own.getByRole("button", { name: "New alert" }).click();
  const dialog = own.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).pressSequentially("window");
  await dialog.getByLabel("project *").pressSequentially("p1");
  await dialog.getByLabel("Webhook").pressSequentially("http://127.0.0.1:9/hook");
  await dialog.getByLabel("Time window").selectOption("of the last 5 minutes");
  await dialog.getByText("Every 5 minutes the endpoint is asked for the last 5 minutes with project = p1.").waitFor();
  // A click beside the dialog loses nothing.
  await own.keyboard.press("Escape");
  await own.getByRole("button", { name: "New alert" }).click();
  assert.equal(await dialog.getByLabel("Time window").inputValue(), "now-5m");
  await dialog.getByRole("button", { name: "Save the alert" }).click();
  await own.locator("[data-secret]").waitFor();
  assert.deepEqual((await api("GET", "/api/endpoints/console.window/alerts/window")).body.parameters, { iso_timestamp_start: "now-5m", project: "p1" });
  const run = (await api("POST", "/api/endpoints/console.window/alerts/window/runs")).body;
  assert.equal(run.error, null);
  await own.close();
});

test("rows with several lines, long values and many columns can be read", { timeout: 120_000 }, async () => {
  const many = Array.from({ length: 500 }, (_, n) => `${n} AS c${n}`).join(", ");
  await made("/api/endpoints", { name: "console.lines", query: "SELECT 'first line\\nsecond line' AS event_message, REPEAT('long words ', 2000) AS long FROM UNNEST(GENERATE_ARRAY(1, 3)) AS n", sandboxable: false });
  await made("/api/endpoints", { name: "console.wide", query: `SELECT n, ${many} FROM UNNEST(GENERATE_ARRAY(1, 2000)) AS n ORDER BY n`, max_limit: 10000, sandboxable: false });
  const own = await signedIn("explore?endpoint=console.lines&mode=saved");
  await own.locator(".table[data-rows='3']").waitFor();
  assert.equal(await own.getByRole("gridcell").first().textContent(), "first line ↵ second line");
  await own.getByRole("gridcell").first().click();
  const detail = own.getByRole("complementary", { name: "Row" });
  await detail.getByText("12,000 more characters").waitFor();
  const value = await detail.locator(".leaf-value").nth(1).boundingBox();
  assert.ok(value.width > 200, `${value.width} pixels wide`);
  await own.goto(`${base}/console#/explore?endpoint=console.wide&mode=saved`);
  await own.locator(".table[data-rows='2000']").waitFor();
  assert.ok((await own.getByRole("gridcell").count()) < 3000);
  await own.locator(".table").evaluate((table) => table.scrollTo({ left: table.scrollWidth }));
  await own.getByRole("columnheader", { name: "c499", exact: true }).waitFor();
  const [head, cell] = [await own.getByRole("columnheader", { name: "c499", exact: true }).boundingBox(), await own.getByRole("gridcell", { name: "499", exact: true }).first().boundingBox()];
  assert.ok(Math.abs(head.x - cell.x) < 1 && head.x + head.width <= 1360, "a column stands below its head, and within the page");
  await own.locator(".table").focus();
  await own.keyboard.press("End");
  await own.locator("#row-1999").waitFor();
  await own.locator(".table").evaluate((table) => table.scrollTo({ left: table.scrollWidth / 2 }));
  await own.getByRole("columnheader", { name: "c250", exact: true }).waitFor();
  await own.close();
});

test("what is not there says so: an endpoint, a server, a part of the console", async () => {
  const own = await signedIn(`explore?${new URLSearchParams({ endpoint: "no.such", q: "SELECT 1" })}`);
  await own.getByRole("alert").getByText("There is no endpoint no.such that this token may query").waitFor();
  await own.goto(`${base}/console#/status`);
  await own.locator(".tag").getByText("ready", { exact: true }).waitFor();
  await own.locator(".figures").waitFor();
  await own.route("**/ready", (route) => route.abort());
  await own.route("**/metrics", (route) => route.abort());
  await own.locator(".tag").getByText("not answering").waitFor();
  await own.getByText("These figures are old").waitFor();
  assert.equal(await own.locator(".tag").getByText("ready", { exact: true }).count(), 0);
  await own.unroute("**/ready");
  await own.unroute("**/metrics");
  await own.locator(".tag").getByText("ready", { exact: true }).waitFor();
  await own.getByText("These figures are old").waitFor({ state: "detached" });
  said.splice(0, said.length, ...said.filter((line) => !/net::ERR_FAILED/.test(line)));
  await own.close();
  // After an upgrade the parts have other names.
  const old = await signedIn(`explore?${new URLSearchParams({ endpoint: "logs.all", "p.project": "p1", q: "SELECT id FROM postgres_logs LIMIT 2" })}`);
  await old.locator(".table[data-rows='2']").waitFor();
  await typeOver(old, "SELECT id FROM postgres_logs LIMIT 4");
  await old.route("**/console/assets/Tokens-*.js", (route) => route.fulfill({ status: 404, body: "" }));
  await old.getByRole("link", { name: "Tokens" }).click();
  await old.getByText("A part of the console cannot be loaded").waitFor();
  await old.unroute("**/console/assets/Tokens-*.js");
  await old.getByRole("button", { name: "Reload the page" }).click();
  await old.getByRole("button", { name: "New token" }).waitFor();
  await old.goBack();
  await old.locator("[data-editor] .cm-line").first().waitFor();
  assert.equal(await written(old), "SELECT id FROM postgres_logs LIMIT 4");
  await old.close();
});

test("a time range that is being written stays the same in the other zone", async () => {
  const abroad = await browser.newContext({ timezoneId: "America/New_York" });
  const own = await opened(abroad);
  await own.goto(`${base}/console`);
  await signIn(own, token);
  await own.goto(explore({ range: "2026-07-01T10:00:00.000Z/2026-07-01T12:30:00.000Z", q: "SELECT event_message FROM postgres_logs LIMIT 5" }));
  await own.getByRole("button", { name: /^Time range/ }).click();
  assert.equal(await own.getByLabel("From").inputValue(), "2026-07-01 06:00:00");
  await own.getByLabel("To", { exact: true }).fill("2026-07-01 09:00:00");
  await own.getByLabel("Show times in UTC").check();
  assert.deepEqual([await own.getByLabel("From").inputValue(), await own.getByLabel("To", { exact: true }).inputValue()], ["2026-07-01 10:00:00", "2026-07-01 13:00:00"]);
  await own.getByRole("button", { name: "Apply" }).click();
  await own.waitForURL(/range=2026-07-01T10%3A00%3A00.000Z%2F2026-07-01T13%3A00%3A00.000Z/);
  await abroad.close();
});

test("long values do not fill the page", async () => {
  await made("/api/endpoints", { name: "long", query: "SELECT REPEAT('x', 900000) AS a, GENERATE_ARRAY(1, 1000) AS b FROM UNNEST([1, 2]) AS n", sandboxable: false });
  await page.goto(`${base}/console#/explore?endpoint=long&mode=saved`);
  await page.reload();
  await page.locator(".table[data-rows='2']").waitFor();
  assert.equal((await page.getByRole("gridcell").first().textContent()).length, 600);
  await page.locator(".table").focus();
  await page.keyboard.press("ArrowDown");
  const detail = page.getByRole("complementary", { name: "Row" });
  await detail.getByText("890,000 more characters").waitFor();
  assert.ok((await detail.textContent()).length < 30_000);
  assert.ok((await detail.locator(".leaf").count()) < 210);
  await detail.getByRole("button", { name: "Show 200 more values" }).click();
  await detail.getByText("[399]", { exact: true }).waitFor();
  await accessible("a row with long values");
  await page.getByRole("tab", { name: "JSON" }).click();
  await page.getByText("The first 200,000 characters of the first row").waitFor();
  assert.ok((await page.locator(".json pre").textContent()).length < 201_000);
});

test("the keyboard keeps its place: behind menus and dialogs, and out of the editor", async () => {
  // What a key does is drawn after it: a slow machine is waited for, and what never comes fails by time.
  const focused = (name) => page.waitForFunction((name) => (document.activeElement?.getAttribute("aria-label") || document.activeElement?.textContent) === name, name);
  await page.goto(explore({ q: "SELECT event_message FROM postgres_logs LIMIT 5" }));
  await page.reload();
  await page.locator(".table[data-rows='5']").waitFor();
  const share = page.getByRole("button", { name: "Share" });
  await share.focus();
  await page.keyboard.press("Enter");
  await focused("Copy a link to this view");
  await page.keyboard.press("Enter");
  await focused("Share");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Copy as curl" }).focus();
  await page.keyboard.press("Tab");
  await page.getByRole("button", { name: "Copy as curl" }).waitFor({ state: "detached" });
  await focused("Download");
  await page.locator("[data-editor] .cm-content").click();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  // Escape, then Tab leaves the editor.
  await page.waitForFunction(() => document.activeElement?.closest("[data-editor]") === null);
  await page.goto(`${base}/console#/tokens`);
  const create = page.getByRole("button", { name: "New token" });
  // Until the list has been read, the page may still be drawn anew.
  await page.getByRole("heading", { name: "Tokens", exact: true }).waitFor();
  await page.locator(".list-frame, .empty").first().waitFor();
  await create.focus();
  await focused("New token");
  await page.keyboard.press("Enter");
  for (const key of ["Escape", "Cancel"]) {
    await page.getByRole("dialog").waitFor();
    if (key === "Escape") await page.keyboard.press(key);
    else await page.getByRole("button", { name: key }).press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await focused("New token");
    if (key === "Escape") await page.keyboard.press("Enter");
  }
});

test("without a clipboard texts are copied by selection: in a dialog too, and the focus stays", async () => {
  for (const kind of ["none", "refused"]) {
    const own = await opened();
    await own.addInitScript((kind) => {
      const refused = { writeText: () => new Promise((_, reject) => setTimeout(() => { window.refusals = (window.refusals ?? 0) + 1; reject(new Error("not allowed")); }, 100)) };
      Object.defineProperty(navigator, "clipboard", { value: kind === "none" ? undefined : refused });
      window.copied = [];
      addEventListener("copy", () => window.copied.push(document.activeElement?.value));
    }, kind);
    const copied = async (count) => {
      await own.waitForFunction((count) => window.copied.length === count, count);
      return own.evaluate(() => window.copied.at(-1));
    };
    const focused = () => own.evaluate(() => document.activeElement?.textContent);
    await own.goto(explore({ q: "SELECT event_message FROM postgres_logs LIMIT 5" }));
    await signIn(own, token);
    await own.locator(".table[data-rows='5']").waitFor();
    await own.getByRole("button", { name: "Share" }).focus();
    await own.keyboard.press("Enter");
    await own.getByRole("button", { name: "Copy a link to this view" }).press("Enter");
    assert.equal(await copied(1), own.url());
    assert.equal(await focused(), "Share", kind);

    await own.goto(`${base}/console#/tokens`);
    await own.getByRole("button", { name: "New token" }).click();
    await own.getByRole("button", { name: "Make the token" }).click();
    const secret = await own.locator("[data-secret]").textContent();
    await own.getByRole("button", { name: "Copy the token" }).press("Enter");
    assert.equal(await copied(2), secret);
    assert.equal(await own.evaluate(() => document.activeElement?.closest("dialog") !== null), true, kind);
    assert.equal(await own.evaluate(() => window.refusals ?? 0), kind === "none" ? 0 : 2);
    await own.close();
  }
});

test("a form of an alert stays open when a run of another one ends, and a token is made once", async () => {
  const own = await opened();
  await made("/api/endpoints/console.levels/alerts", { name: "late", every_minutes: 60, condition: "rows > 900", url: "http://127.0.0.1:9/hook", parameters: { project: "p1" } });
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await own.route("**/alerts/late/runs", async (route) => {
    if (route.request().method() === "POST") await held;
    await route.continue();
  });
  await own.goto(`${base}/console#/endpoints/console.levels/alerts`);
  await signIn(own, token);
  await own.getByRole("button", { name: "Run now: late" }).click();
  await own.getByRole("button", { name: "New alert" }).click();
  await own.getByRole("dialog").getByLabel("Name", { exact: true }).fill("half written");
  const ended = own.waitForResponse((response) => response.url().endsWith("/alerts/late/runs") && response.request().method() === "POST");
  release();
  await ended;
  await own.waitForTimeout(300);
  assert.equal(await own.getByRole("dialog").getByLabel("Name", { exact: true }).inputValue(), "half written");
  assert.equal((await api("DELETE", "/api/endpoints/console.levels/alerts/late")).status, 204);

  let posts = 0;
  await own.route("**/api/access-tokens", async (route) => {
    if (route.request().method() === "POST") {
      posts += 1;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    await route.continue();
  });
  await own.goto(`${base}/console#/tokens`);
  await own.getByRole("button", { name: "New token" }).click();
  await own.getByRole("button", { name: "Make the token" }).evaluate((button) => { button.click(); button.click(); });
  await own.locator("[data-secret]").waitFor();
  assert.equal(posts, 1);
  await own.close();
});

test("names that look like code are text on every page", async () => {
  // The server refuses such a name of an endpoint; all else may be called so.
  assert.equal((await api("POST", "/api/endpoints", { name: EVIL, query: "SELECT 1 AS one" })).status, 422);
  await made("/api/endpoints", { name: "evil", description: EVIL, query: "SELECT 1 AS one", parameters: [{ name: "a", description: EVIL }], sandboxable: true });
  await made("/api/sources", { name: `evil ${EVIL}` });
  await made("/api/access-tokens", { description: EVIL, scopes: "query" });
  // The text of a caller is among the slowest queries.
  await made("/api/endpoints/query/evil", { sql: `SELECT COUNT(*) AS n FROM UNNEST(GENERATE_ARRAY(1, 90000)) AS x WHERE MOD(x, 7) = 3 -- ${EVIL}` });
  for (const name of ["explore", "endpoints", "sources", "tokens", "status"]) {
    await page.goto(`${base}/console#/${name}`);
    await page.reload();
    await page.locator("main h1").first().waitFor({ state: "attached" });
    if (name === "explore") await page.getByLabel("Endpoint", { exact: true }).selectOption("evil");
    await page.getByText(EVIL).first().waitFor();
    if (name === "status") {
      await page.locator(".plot canvas").first().waitFor();
      await page.locator(".figures").getByText(/^\S+ \S+ of 1(\.0)? GiB$/).first().waitFor();
    }
    await accessible(name);
  }
  await page.goto(`${base}/console#/sources/${encodeURIComponent(`evil ${EVIL}`)}`);
  await page.getByRole("heading", { name: EVIL }).waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined);
});

test("the state of workers is shown, and where the scans of a slow query ran", async () => {
  const own = await opened();
  const json = (body) => ({ status: 200, contentType: "application/json", body: JSON.stringify(body) });
  await own.route("**/ready", (route) => route.fulfill(json({ status: "ok", warnings: [], workers: [{ name: "10.0.0.1:4100", used: true, reason: null }, { name: EVIL, used: false, reason: `another version ${EVIL}` }] })));
  await own.route("**/metrics", (route) => route.fulfill({ status: 200, contentType: "text/plain", body: 'tidegate_cluster_tasks_total{worker="10.0.0.1:4100",outcome="done"} 40\ntidegate_cluster_tasks_total{worker="10.0.0.1:4100",outcome="left"} 2\ntidegate_cluster_tasks_total{worker="10.0.0.1:4100",outcome="gone"} 3\n' }));
  const ran = { milliseconds: 12, rows_sent: 4, rows_read: 1000, bytes_read: 2048, memory: 1 };
  const task = { worker: "10.0.0.1:4100", segments: 2, partitions: 1, bytes: 1, rows: 1000 };
  const statement = { remote: [{ source: "postgres.logs", operators: ["DataSourceExec"], tasks: [{ ...task, ran }, { ...task, worker: "10.0.0.2:4100" }] }], local: [{ reason: "little", message: "only 3 rows" }], attempts: [{ worker: "10.0.0.3:4100", failure: "the worker is gone" }] };
  const slow = { arrived_at: new Date().toISOString(), milliseconds: 20, endpoint: { id: "1", name: "logs.all" }, status: 200, token: null, cache: null, language: null, text: null, text_is_cut: false, statements: 1, rows_read: 1000, bytes_read: 2048, memory: 1, tasks: 2, moves: 1, workers: [statement] };
  await own.route("**/api/slow-queries", (route) => route.fulfill(json([slow])));
  await own.goto(`${base}/console#/status`);
  // What signs a page in is kept by its tab, so a page of its own has to sign in.
  await signIn(own, token);
  const workers = own.getByRole("region", { name: "Workers" });
  // The workers come with the first answer, what they ended with the second.
  await workers.getByRole("cell", { name: "42", exact: true }).waitFor();
  assert.match(await workers.getByRole("row", { name: /10\.0\.0\.1/ }).innerText(), /used\s+42\s+0\s+3/);
  assert.match(await workers.getByRole("row", { name: /onerror/ }).innerText(), /not used\s+another version/);
  // What operators come for stands before what the server holds.
  const sections = await own.locator("main section.stack").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert.deepEqual(sections.filter((name) => name !== "Alerts"), ["Slowest queries of the last hour", "Traffic", "Workers", "What the server holds"]);
  const queries = own.getByRole("region", { name: "Slowest queries" });
  await queries.getByText("Scans by worker").click();
  const told = await queries.getByRole("row", { name: /logs\.all/ }).innerText();
  for (const words of ["postgres.logs, on workers", "10.0.0.1:4100: 12 ms, 2 segments", "10.0.0.3:4100 failed (the worker is gone), and it ran again", "10.0.0.2:4100: not started", "On the server: only 3 rows"]) assert.ok(told.includes(words), `${words}: ${told}`);
  assert.equal(await own.evaluate(() => window.broken), undefined);
  await own.close();
});

test("a source shows its fields, takes a test event, and keeps a setting", async () => {
  await page.goto(`${base}/console#/sources/postgres.logs`);
  await page.getByText("metadata.request.path").waitFor();
  assert.match(await page.getByRole("row", { name: "event_message STRING" }).innerText(), /100 %/);
  await accessible("a source");
  await page.getByRole("tab", { name: "Who reads it" }).click();
  await page.locator("[data-access]").first().waitFor();
  assert.match(await page.locator("[data-access]").first().innerText(), /logs\.all/);
  await accessible("who reads a source");
  await page.getByRole("tab", { name: "Send to it" }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await page.getByText("It arrived").waitFor();
  await accessible("sending to a source");
  await page.getByRole("tab", { name: "Settings" }).click();
  assert.equal(await page.getByLabel("Tenant keys").inputValue(), "project=project");
  await page.getByLabel("Keep rows for (days)").fill("30");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("30 days").waitFor();
  await accessible("settings of a source");
});

test("a pinned token sees its rows and no management, and is signed out when it is revoked", async () => {
  await page.goto(`${base}/console#/tokens`);
  await page.getByRole("button", { name: "New token" }).click();
  await page.getByLabel("Description").fill("tenant of the tests");
  await page.getByRole("button", { name: "Add a fixed parameter" }).click();
  await page.getByRole("group", { name: "Fixed parameters" }).getByLabel("Name").selectOption("project");
  await page.getByRole("group", { name: "Fixed parameters" }).getByLabel("Value").fill("p2");
  await page.getByText("Only where project is “p2”").waitFor();
  await accessible("a new token");
  await page.getByRole("button", { name: "Make the token" }).click();
  const pinned = await page.locator("[data-secret]").innerText();
  await accessible("the token that was made");
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("link", { name: "What it reads: tenant of the tests" }).click();
  await page.getByText("project = 'p2'").first().waitFor();
  await accessible("what a token reads");
  await page.goto(`${base}/console#/tokens`);
  await page.getByRole("row").filter({ hasText: "tenant of the tests" }).waitFor();

  const own = await browser.newContext({ viewport: { width: 420, height: 800 }, colorScheme: "dark" });
  const tenant = await opened(own);
  await tenant.goto(`${base}/console`);
  await signIn(tenant, pinned);
  assert.deepEqual(await tenant.getByRole("navigation").getByRole("link").allInnerTexts(), ["Explore"]);
  await tenant.goto(`${base}/console#/explore?${new URLSearchParams({ endpoint: "logs.all", "p.project": "p1", q: "SELECT event_message FROM postgres_logs" })}`);
  await tenant.reload();
  await tenant.locator(".table[data-rows='7']").waitFor();
  assert.ok(!(await tenant.locator(".table").innerText()).includes("of p1"));

  await page.getByRole("row").filter({ hasText: "tenant of the tests" }).getByRole("button").click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("row").filter({ hasText: "tenant of the tests" }).waitFor({ state: "detached" });
  // The next request finds out; where the page is still learning columns, that is one of its own.
  await tenant.getByRole("button", { name: "Run" }).click({ timeout: 2000 }).catch(() => {});
  await tenant.getByText("You are signed out").waitFor();
  assert.equal(await tenant.evaluate(() => sessionStorage.length), 0);
  await own.close();
});

/** Sends logs of the project p1. */
async function sendLogs(...logs) {
  const events = logs.map(([event_message, level]) => ({ project: "p1", timestamp: new Date().toISOString(), event_message, metadata: { level } }));
  const answer = await fetch(`${base}/api/logs?source_name=postgres.logs`, { method: "POST", headers: { "x-api-key": token, "content-type": "application/json" }, body: JSON.stringify(events) });
  assert.equal(answer.status, 200, await answer.text());
}

/** Waits until so many queries are followed. */
async function followers(wanted) {
  for (let turn = 0; ; turn += 1) {
    const text = await (await fetch(`${base}/metrics`, { headers: { "x-api-key": token } })).text();
    const found = Number(/^tidegate_followers (\d+)/m.exec(text)?.[1]);
    if (found === wanted) return;
    assert.ok(turn < 300, `${found} followers`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const NEWEST = "SELECT timestamp, event_message, metadata\nFROM postgres_logs\nORDER BY timestamp DESC\nLIMIT 50";
const liveState = (name) => page.locator(".results-bar").getByRole("status").getByText(name, { exact: true }).waitFor();
const cell = (text) => page.getByRole("gridcell", { name: text, exact: true });

test("live mode shows rows as they come, holds a filter, and stands still for who reads", async () => {
  await page.goto(explore({ q: NEWEST }));
  await page.reload();
  await page.locator(".table[data-rows='50']").waitFor();
  await page.getByRole("button", { name: "Live", exact: true }).click();
  await liveState("Live");
  await followers(1);
  await page.locator(".table[data-rows='50']").waitFor();
  assert.match(page.url(), /live=1/);
  const evil = `${EVIL} live`;
  await sendLogs([evil, "error"]);
  await page.locator(".table[data-rows='51']").waitFor();
  assert.ok((await page.locator(".table-row").nth(1).innerText()).includes(evil), "the newest row is the first");
  await cell(evil).click();
  const detail = page.getByRole("complementary", { name: "Row" });
  await detail.getByRole("heading", { name: "Row 1 of 51" }).waitFor();
  await sendLogs(["after the open one", "info"]);
  await detail.getByRole("heading", { name: "Row 2 of 52" }).waitFor();
  assert.ok((await detail.innerText()).includes(evil), "the open row stays open");
  await accessible("live mode");
  await detail.getByRole("button", { name: "Only rows with this value of metadata.level" }).click({ force: true });
  await page.waitForURL(/metadata%5BSAFE_OFFSET/);
  await liveState("Live");
  await followers(1);
  await cell("after the open one").waitFor({ state: "detached" });
  await sendLogs(["no error", "info"], ["an error", "error"]);
  await cell("an error").waitFor();
  assert.equal(await cell("no error").count(), 0);

  await page.getByRole("button", { name: "Pause" }).click();
  await liveState("Paused");
  await sendLogs(["while paused", "error"]);
  await page.getByRole("button", { name: "1 new row" }).waitFor();
  assert.equal(await cell("while paused").count(), 0);
  await accessible("live mode that is paused");
  await page.getByRole("button", { name: "1 new row" }).click();
  await cell("while paused").waitFor();
  await liveState("Live");

  await page.locator(".table").evaluate((table) => table.scrollTo({ top: 200 }));
  await liveState("Standing still while you read");
  await sendLogs(["while reading", "error"], ["while reading on", "error"]);
  await page.getByRole("button", { name: "2 new rows" }).waitFor();
  await page.locator(".table").evaluate((table) => table.scrollTo({ top: 0 }));
  await cell("while reading on").waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined);
});

test("live mode is in the link and in curl, and ends with the page", async () => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Copy as curl" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^curl -N .*text\/event-stream/);
  assert.ok(copied.includes("follow_rows=50") && !copied.includes("LIMIT") && !copied.includes(token), copied);
  await page.reload();
  await liveState("Live");
  await cell("while reading on").waitFor();
  await page.locator(".table").focus();
  await page.keyboard.press("l");
  await followers(0);
  assert.ok(!page.url().includes("live=1"));
  await page.keyboard.press("l");
  await followers(1);
  await page.goto(`${base}/console#/status`);
  await followers(0);
});

test("LQL and the saved query can be followed, and what cannot be says why", async () => {
  await page.goto(explore({ live: "1", mode: "lql", q: "f:postgres_logs m.level:error s:timestamp s:event_message" }));
  await liveState("Live");
  await sendLogs(["by LQL", "error"], ["not by LQL", "info"]);
  await cell("by LQL").waitFor();
  assert.equal(await cell("not by LQL").count(), 0);
  await page.goto(explore({ live: "1", mode: "saved" }));
  await page.getByText("No rows yet").waitFor();
  await accessible("live mode without rows");
  await page.goto(explore({ live: "1", q: "SELECT COUNT(*) AS n FROM postgres_logs" }));
  await page.getByRole("alert").getByText("cannot be followed").waitFor();
  await page.getByRole("button", { name: "Live", exact: true, pressed: false }).waitFor();
  await followers(0);
});

test("what a slow reader missed is told, and why the server ended the stream", async () => {
  const events = 'id: 1\ndata: {"a":9007199254740993}\n\nevent: live\nid: 1\ndata: {"rows":1}\n\nevent: missed\ndata: {"rows":12}\n\nevent: gap\ndata: {"message":"the log is younger"}\n\nevent: end\nid: 2\ndata: {"reason":"failed","message":"failed","error":{"message":"a number was too large"}}\n\n';
  const isStream = (request) => request.headers().accept === "text/event-stream";
  const answer = (route) => (isStream(route.request()) ? route.fulfill({ contentType: "text/event-stream", body: events }) : route.fallback());
  await page.route("**/api/endpoints/query/*", answer);
  await page.goto(explore({ live: "1", q: "SELECT 1 AS a FROM postgres_logs" }));
  await page.getByText("Live has ended: a number was too large.").waitFor();
  await page.getByText("Rows may be missing: the log is younger").waitFor();
  await page.locator(".results-bar").getByText("12 missed").waitFor();
  await cell("9007199254740993").waitFor();
  await accessible("live mode that has ended");
  await page.unroute("**/api/endpoints/query/*", answer);
});

test("live mode ends where the endpoint is deleted or the token is revoked", async () => {
  await made("/api/endpoints", { name: "console.live", query: "WITH logs AS (SELECT id, event_message FROM `postgres.logs` WHERE project = 'p1')\nSELECT id FROM logs", sandboxable: true });
  await page.goto(`${base}/console#/explore?${new URLSearchParams({ endpoint: "console.live", live: "1", q: "SELECT event_message FROM logs" })}`);
  await page.reload();
  await liveState("Live");
  await page.locator(".table").waitFor();
  assert.equal((await api("DELETE", "/api/endpoints/console.live")).status, 204);
  await page.getByText("Live has ended: the endpoint was deleted.").waitFor();
  const { id, token: key } = await made("/api/access-tokens", { description: "live", scopes: "query" });
  const own = await browser.newContext();
  const reader = await opened(own);
  await reader.goto(`${base}/console`);
  await signIn(reader, key);
  await reader.goto(explore({ live: "1", q: NEWEST }));
  await followers(1);
  await api("DELETE", `/api/access-tokens/${id}`);
  await reader.getByText("You are signed out").waitFor();
  await followers(0);
  await own.close();
});

test("cancel stops a query, on the server too", async () => {
  const endless = "SELECT COUNT(*) AS n FROM postgres_logs a CROSS JOIN postgres_logs b CROSS JOIN postgres_logs c CROSS JOIN postgres_logs d";
  await page.goto(explore({ q: endless }));
  await page.reload();
  const running = async () => (await (await fetch(`${base}/ready`)).json()).running;
  const until = async (wanted) => {
    for (let turn = 0; (await running()) !== wanted; turn += 1) {
      assert.ok(turn < 200, `the server runs ${await running()} queries`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  await until(1);
  await page.getByRole("button", { name: "Cancel" }).click();
  await until(0);
});

test("signing out forgets the token", async () => {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Access token").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

test("nothing was asked of another host, and the browser had nothing to say", () => {
  assert.deepEqual([...asked], [base]);
  assert.deepEqual(said, []);
});
