// Makes pictures of every page of the console, at two widths and in both themes, of the demonstration.
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, signIn } from "./browser.mjs";

const to = process.argv[2];
mkdirSync(to, { recursive: true });
const demo = spawn(process.env.TIDEGATE_BIN, ["demo", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });

/** The address and the token that the demonstration prints. */
async function printed() {
  let text = "";
  for await (const chunk of demo.stdout) {
    text += chunk;
    const found = /runs at (http:\S+)[\s\S]*X-API-KEY: ([^']+)'[\s\S]*Ctrl-C/.exec(text);
    if (found) return { base: process.env.TIDEGATE_CONSOLE_URL ?? found[1], own: found[1], token: found[2] };
  }
  throw new Error(`the demonstration ended: ${text}`);
}

const explore = (query) => `explore?${new URLSearchParams({ endpoint: "logs.all", "p.project": "default", range: "24h", ...query })}`;
const ROWS = "SELECT timestamp, event_message, metadata\nFROM edge_logs\nORDER BY timestamp DESC\nLIMIT 500";
const COUNTS = "SELECT TIMESTAMP_TRUNC(timestamp, DAY) AS day,\n  metadata[SAFE_OFFSET(0)].request[SAFE_OFFSET(0)].method AS method,\n  COUNT(*) AS requests\nFROM edge_logs\nGROUP BY day, method\nORDER BY day";

/** The pages: a name, an address, and what is done before the picture. */
const PAGES = [
  ["explore", explore({ q: ROWS }), (page) => page.locator(".histogram canvas").waitFor()],
  ["explore-row", explore({ q: ROWS }), async (page) => page.locator(".table-row").nth(6).click({ position: { x: 40, y: 12 } })],
  ["explore-live", explore({ q: ROWS, live: "1" }), (page) => page.getByText("rows/s").waitFor()],
  ["explore-mistake", explore({ q: "SELECT timestmp, event_message\nFROM edge_log\nLIMIT 10" }), (page) => page.locator(".cm-lintRange-error").waitFor()],
  ["explore-chart", explore({ q: COUNTS, view: "chart", range: "7d" }), (page) => page.locator(".chart canvas").waitFor()],
  ["endpoints", "endpoints", (page) => page.getByText("usage.api-counts").waitFor()],
  ["endpoint", "endpoints/usage.api-counts", (page) => page.locator(".cm-line").first().waitFor()],
  ["endpoint-versions", "endpoints/logs.all/versions", (page) => page.locator(".cm-deletedChunk").first().waitFor()],
  ["endpoint-calls", "endpoints/usage.api-counts/calls", (page) => page.getByText("Python").waitFor()],
  ["sources", "sources", (page) => page.getByText("postgres.logs").waitFor()],
  ["source", "sources/postgres.logs", (page) => page.getByText("metadata.host").waitFor()],
  ["tokens", "tokens", (page) => page.getByText("dashboard").waitFor()],
  ["token-new", "tokens", (page) => page.getByRole("button", { name: "New token" }).click()],
  ["status", "status", (page) => page.waitForTimeout(5000)],
];

const browser = await launch();
try {
  const { base, own, token } = await printed();
  const api = (method, path, body) => fetch(own + path, { method, headers: { "x-api-key": token, "content-type": "application/json" }, body: JSON.stringify(body) });
  await api("PUT", "/api/endpoints/logs.all", { max_limit: 5000 });
  await api("POST", "/api/access-tokens", { description: "dashboard of the project default", scopes: "query", pinned: { project: "default" } });
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme });
      const page = await context.newPage();
      page.setDefaultTimeout(15_000);
      const picture = (name) => page.screenshot({ path: join(to, `${name}-${width}-${colorScheme}.png`) });
      await page.goto(`${base}/console`);
      await page.getByLabel("Access token").waitFor();
      await picture("sign-in");
      await signIn(page, token);
      for (const [name, path, ready] of PAGES) {
        await page.goto(`${base}/console#/${path}`);
        await page.reload();
        await ready(page);
        await page.waitForTimeout(700);
        await picture(name);
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  demo.kill();
}
