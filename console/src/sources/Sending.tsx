// How to send logs to a source, and a test event that shows that it works.
import { useState } from "preact/hooks";
import { json, messageOf, segment } from "../api/client";
import { duration } from "../result/format";
import { T } from "../text";
import { Alert, Snippet } from "../ui/parts";

function snippets(name: string): { label: string; text: string }[] {
  const base = location.origin;
  const encoded = encodeURIComponent(name);
  return [
    { label: "curl", text: `curl -s -H "X-API-KEY: $TIDEGATE_TOKEN" -H 'Content-Type: application/json' \\\n  '${base}/api/logs?source_name=${encoded}' \\\n  -d '[{"event_message": "hello", "metadata": {"level": "info"}}]'` },
    { label: "OpenTelemetry (environment of any SDK or collector)", text: `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=${base}/v1/logs\nOTEL_EXPORTER_OTLP_LOGS_PROTOCOL=http/protobuf\nOTEL_EXPORTER_OTLP_LOGS_HEADERS=x-api-key=$TIDEGATE_TOKEN,x-source-name=${encoded}` },
    { label: "pino (Node.js, with the package pino-logflare)", text: `import pino from "pino";\n\nconst transport = pino.transport({\n  target: "pino-logflare",\n  options: { apiKey: process.env.TIDEGATE_TOKEN, sourceName: ${JSON.stringify(name)}, apiBaseUrl: ${JSON.stringify(base)} },\n});\nconst log = pino({}, transport);\nlog.info("hello");` },
    { label: "Vector", text: `[sinks.tidegate]\ntype = "http"\ninputs = ["my_source"]\nuri = "${base}/api/logs?source_name=${encoded}"\nencoding.codec = "json"\ncompression = "gzip"\nrequest.headers.X-API-KEY = "\${TIDEGATE_TOKEN}"` },
    { label: "Fluent Bit", text: `[OUTPUT]\n    Name http\n    Match *\n    Host ${location.hostname}\n    Port ${location.port || (location.protocol === "https:" ? "443" : "80")}\n    URI /api/logs?source_name=${encoded}\n    Format json\n    json_date_format iso8601\n    Header X-API-KEY \${TIDEGATE_TOKEN}` },
  ];
}

export function Sending({ name, onSent }: { name: string; onSent: () => void }) {
  const [state, setState] = useState<{ kind: "done" | "error" | "warning"; text: string } | null>(null);
  const test = async (): Promise<void> => {
    const id = crypto.getRandomValues(new Uint32Array(4)).reduce((text, part) => text + part.toString(16), "console-");
    setState({ kind: "warning", text: T.sources.testSending });
    try {
      const began = performance.now();
      await json(`/api/logs?source_name=${segment(name)}`, { method: "POST", body: [{ id, event_message: T.sources.testMessage }] });
      const acknowledged = performance.now() - began;
      const recent = await json<{ result: { id?: string }[] }>(`/api/sources/${segment(name)}/recent?limit=50`);
      const found = recent.result.some((row) => row.id === id);
      setState(found ? { kind: "done", text: T.sources.testArrived(duration(acknowledged), duration(performance.now() - began)) } : { kind: "error", text: T.sources.testLost });
      onSent();
    } catch (failure) {
      setState({ kind: "error", text: messageOf(failure) });
    }
  };
  return (
    <div class="stack">
      <div class="actions">
        <button type="button" class="primary" disabled={state?.kind === "warning"} onClick={() => void test()}>{T.sources.test}</button>
        <span class="hint">{T.sources.testHint}</span>
      </div>
      {state && <Alert kind={state.kind} message={state.text} />}
      <p class="hint">{T.sources.sendingHint}</p>
      {snippets(name).map((one) => <Snippet key={one.label} label={one.label} text={one.text} />)}
    </div>
  );
}
