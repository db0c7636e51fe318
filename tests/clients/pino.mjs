// pino with pino-logflare, the transport of the incumbent service, pointed at Tidegate.
import assert from "node:assert/strict";
import pino from "pino";
import { ingestToken, rowsOnceThere, url } from "./service.mjs";

const began = Date.now() * 1000;
const failures = [];
const transport = pino.transport({
  target: "pino-logflare",
  options: { apiKey: ingestToken, sourceName: "realtime.logs.prod", apiBaseUrl: url, batchSize: 3, batchTimeout: 200, debug: true },
});
transport.on("error", (error) => failures.push(error));
const log = pino({ base: { project: "pino" }, level: "debug" }, transport);
log.info({ request: { method: "GET", sizes: [1, 2] }, n: 9007199254740991 }, "first");
log.warn("second");
log.error(new TypeError("broken"), "third");
log.debug({ empty: {} }, "fourth");

const sql =
  "select event_message, timestamp, m.level as level, m.n as n, r.method as method, m.project as project " +
  "from realtime_logs cross join unnest(metadata) as m left join unnest(m.request) as r order by event_message";
const rows = await rowsOnceThere("pino", sql, 4);
assert.deepEqual(failures, []);
assert.deepEqual(
  rows.map(({ timestamp, ...row }) => row),
  [
    { event_message: "first", level: "info", n: 9007199254740991, method: "GET", project: "pino" },
    { event_message: "fourth", level: "debug", n: null, method: null, project: "pino" },
    { event_message: "second", level: "warn", n: null, method: null, project: "pino" },
    { event_message: "third", level: "error", n: null, method: null, project: "pino" },
  ],
);
for (const { timestamp } of rows) assert.ok(timestamp >= began && timestamp <= Date.now() * 1000, `${timestamp}`);
transport.end();
