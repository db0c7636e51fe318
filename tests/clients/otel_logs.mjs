// The OpenTelemetry SDK for JavaScript: OTLP over HTTP in JSON.
import assert from "node:assert/strict";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { ingestToken, rows, url } from "./service.mjs";

const exporter = new OTLPLogExporter({
  url: `${url}/v1/logs`,
  headers: { "x-api-key": ingestToken, "x-source-name": "postgres.logs" },
  compression: "gzip",
});
const provider = new LoggerProvider({
  resource: resourceFromAttributes({ "service.name": "shop", project: "otel-js" }),
  processors: [new BatchLogRecordProcessor(exporter)],
});
const log = provider.getLogger("checkout", "1.2.3");
const timestamp = new Date("2025-11-20T10:15:02.123Z");
log.emit({
  timestamp,
  severityNumber: SeverityNumber.ERROR,
  severityText: "ERROR",
  body: "payment failed",
  attributes: { "http.response.status_code": 502, retry: true, ratio: 0.5, ids: [1, 2], raw: new Uint8Array([0, 255, 16]) },
});
log.emit({ timestamp, severityNumber: SeverityNumber.INFO, body: { order: 7, items: ["a"] } });
log.emit({ timestamp, eventName: "cart.emptied" });
await provider.forceFlush();

// What was acknowledged is there at once.
const found = await rows(
  "otel-js",
  "select event_message, timestamp, m.severity_number as severity, m.type as type, r.`service.name` as service, " +
    "s.name as scope, s.version as version, a.`http.response.status_code` as status, a.retry as retry, a.ratio as ratio, " +
    "a.raw as raw, array_length(a.ids) as ids, b.`order` as number " +
    "from postgres_logs cross join unnest(metadata) as m cross join unnest(m.resource) as r cross join unnest(m.scope) as s " +
    "left join unnest(m.attributes) as a left join unnest(m.body) as b order by event_message",
);
const common = { timestamp: timestamp.getTime() * 1000, type: "otel_log", service: "shop", scope: "checkout", version: "1.2.3" };
const none = { severity: null, status: null, retry: null, ratio: null, raw: null, ids: null, number: null };
assert.deepEqual(
  found,
  [
    { ...common, ...none, event_message: "cart.emptied" },
    { ...common, ...none, event_message: "payment failed", severity: 17, status: 502, retry: true, ratio: 0.5, raw: "AP8Q", ids: 2 },
    { ...common, ...none, event_message: '{"order":7,"items":["a"]}', severity: 9, number: 7 },
  ],
);
await provider.shutdown();
