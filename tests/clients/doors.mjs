// Senders of other services, for Node.js: winston-loki, pino-loki, @elastic/elasticsearch, winston-elasticsearch, @logtail/node.
//
// Each sends 500 events in the first run and 500 in the second, between which the server is restarted. After the second
// run all of them must be there once.
import assert from "node:assert/strict";
import { Client } from "@elastic/elasticsearch";
import { Logtail } from "@logtail/node";
import pino from "pino";
import winston from "winston";
import { ElasticsearchTransport } from "winston-elasticsearch";
import LokiTransport from "winston-loki";
import { ingestToken, rows, rowsOnceThere, url } from "./service.mjs";

const part = Number(process.argv[2]);
const numbers = Array.from({ length: 500 }, (_, i) => (part - 1) * 500 + i);
const source = "postgres.logs";

/** All events are there once, and a field of each is read. */
async function allThere(project, columns, expected) {
  await rowsOnceThere(project, "select id from postgres_logs limit 1000", 500 * part);
  const counted = await rows(project, "select count(*) as n, count(distinct event_message) as d from postgres_logs");
  assert.deepEqual(counted, [{ n: 500 * part, d: 500 * part }], project);
  const found = await rows(
    project,
    `select ${columns} from postgres_logs left join unnest(metadata) as m where event_message = 'event ${numbers[7]}'`,
  );
  assert.deepEqual(found, [expected], project);
}

// Protocol Buffers in a block of Snappy, and JSON.
for (const json of [false, true]) {
  const failures = [];
  const project = json ? "winston-loki-json" : "winston-loki";
  const transport = new LokiTransport({
    host: url,
    json,
    basicAuth: `anybody:${ingestToken}`,
    headers: { "x-source-name": source },
    labels: { project, application: "shop" },
    format: winston.format.printf(({ message }) => message),
    interval: 1,
    onConnectionError: (error) => failures.push(error),
  });
  const logger = winston.createLogger({ transports: [transport] });
  for (const number of numbers) logger.info(`event ${number}`);
  await allThere(project, "m.application as application, m.level as level", { application: "shop", level: "info" });
  assert.deepEqual(failures, []);
  await transport.flush?.();
  logger.close();
}

{
  const failures = [];
  const transport = pino.transport({
    target: "pino-loki",
    options: {
      host: url,
      basicAuth: { username: "anybody", password: ingestToken },
      headers: { "x-source-name": source },
      labels: { project: "pino-loki", application: "shop" },
      batching: { interval: 1 },
    },
  });
  transport.on("error", (error) => failures.push(error));
  const log = pino({ base: {}, messageKey: "msg" }, transport);
  for (const number of numbers) log.info({ number }, `event ${number}`);
  await rowsOnceThere("pino-loki", "select id from postgres_logs limit 1000", 500 * part);
  const counted = await rows("pino-loki", "select count(*) as n, count(distinct event_message) as d from postgres_logs");
  assert.deepEqual(counted, [{ n: 500 * part, d: 500 * part }]);
  // The line is the record as pino writes it.
  const sql = `select m.application as application, m.level as level from postgres_logs cross join unnest(metadata) as m where regexp_contains(event_message, 'event ${numbers[7]}"')`;
  assert.deepEqual(await rows("pino-loki", sql), [{ application: "shop", level: "info" }]);
  assert.deepEqual(failures, []);
  transport.end();
}

{
  const client = new Client({ node: url, auth: { username: "anybody", password: ingestToken } });
  const lost = [];
  const told = await client.helpers.bulk({
    datasource: numbers.map((number) => ({
      "@timestamp": "2025-11-20T10:15:02.123456Z",
      message: `event ${number}`,
      project: "elasticsearch-js",
      metadata: { serial: number },
    })),
    onDocument: () => ({ create: { _index: source } }),
    onDrop: (document) => lost.push(document),
    flushBytes: 10_000,
  });
  assert.deepEqual([told.successful, told.failed, lost.length], [500, 0, 0]);
  await allThere("elasticsearch-js", "timestamp, m.serial as serial", { timestamp: 1763633702123456, serial: numbers[7] });
  await client.close();
}

{
  // Each document alone, under an id: the second time nothing is stored.
  const client = new Client({ node: url, auth: { username: "anybody", password: ingestToken } });
  const project = "elasticsearch-js-index";
  for (let time = 0; time < 2; time += 1) {
    const sent = numbers.map((number) => {
      const document = { message: `event ${number}`, project, metadata: { serial: number } };
      return client.index({ index: source, id: `${project}-${number}`, document });
    });
    for (const told of await Promise.all(sent)) assert.equal(told.result, "created");
  }
  await allThere(project, "m.serial as serial", { serial: numbers[7] });
  await client.close();
}

{
  // It keeps a note of its own beside each action.
  const failures = [];
  const project = "winston-elasticsearch";
  const transport = new ElasticsearchTransport({
    index: source,
    clientOpts: { node: url, auth: { username: "anybody", password: ingestToken } },
    flushInterval: 200,
    transformer: ({ message, level }) => ({ message, project, metadata: { level } }),
  });
  transport.on("error", (error) => failures.push(error));
  const logger = winston.createLogger({ transports: [transport] });
  for (const number of numbers) logger.info(`event ${number}`);
  await allThere(project, "m.level as level", { level: "info" });
  assert.deepEqual(failures, []);
  await transport.flush();
  logger.close();
}

{
  // MessagePack, with its moments.
  const project = "logtail-js";
  const logtail = new Logtail(ingestToken, { endpoint: `${url}/?source_name=${source}`, throwExceptions: true });
  for (const number of numbers) logtail.warn(`event ${number}`, { project, number, when: new Date("2025-11-20T10:15:02Z") });
  await logtail.flush();
  await allThere(project, "m.level as level, m.number as number, m.when as at", {
    level: "warn",
    // Other senders to this source send it as text, so it is read as text.
    number: String(numbers[7]),
    at: "2025-11-20T10:15:02.000Z",
  });
}
