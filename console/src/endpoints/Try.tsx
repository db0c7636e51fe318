// Trying an endpoint as a caller would: its parameters as a form, its answer as table, chart and JSON.
import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../api/client";
import type { EndpointInfo } from "../api/document";
import { ParameterField } from "../explore/Sidebar";
import { Json } from "../explore/Results";
import { Chart } from "../result/Chart";
import { Detail } from "../result/Detail";
import { type Parameters, run } from "../result/run";
import { summary } from "../result/summary";
import { Table } from "../result/Table";
import type { Result } from "../result/types";
import { T } from "../text";
import { Alert, Empty, Tabs } from "../ui/parts";

type View = "table" | "chart" | "json";

export function presets(info: EndpointInfo | undefined): Parameters {
  return Object.fromEntries((info?.parameters ?? []).map((one) => [one.name, one.preset || (one.required ? (one.choices[0] ?? "") : "")]));
}

export function Try({ name, info }: { name: string; info: EndpointInfo | undefined }) {
  const [values, setValues] = useState<Parameters>(() => presets(info));
  const [result, setResult] = useState<Result | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [running, setRunning] = useState(false);
  const [view, setView] = useState<View>("table");
  const [row, setRow] = useState<number | null>(null);
  const controller = useRef<AbortController | null>(null);
  // The server stops a query that nobody waits for.
  useEffect(() => () => controller.current?.abort(), []);
  const results = useRef<HTMLElement>(null);
  const close = (): void => {
    setRow(null);
    results.current?.querySelector<HTMLElement>(".table")?.focus();
  };
  const start = async (): Promise<void> => {
    controller.current?.abort();
    const own = (controller.current = new AbortController());
    setRunning(true);
    setError(null);
    try {
      const found = await run(name, values, own.signal);
      if (controller.current !== own || own.signal.aborted) return;
      setResult(found);
      setRow(null);
    } catch (failure) {
      if (controller.current === own && !isAbort(failure)) {
        setError(messageOf(failure));
        setResult(null);
      }
    } finally {
      if (controller.current === own) setRunning(false);
    }
  };
  return (
    <div class="stack">
      <form class="card" onSubmit={(event) => { event.preventDefault(); void start(); }}>
        <div class="grid">
          {info?.parameters.map((one) => <ParameterField key={one.name} parameter={one} value={values[one.name] ?? ""} onChange={(value) => setValues({ ...values, [one.name]: value })} />)}
        </div>
        {info?.parameters.length === 0 && <p class="hint">{T.endpoints.noParameters}</p>}
        <div class="actions">
          <button type="submit" class="primary">{T.explore.run}</button>
          <button type="button" disabled={!running} onClick={() => controller.current?.abort()}>{T.explore.cancel}</button>
          <span class="status" role="status">{running ? T.explore.running : result ? summary(result) : ""}</span>
        </div>
      </form>
      {error && <Alert message={error} />}
      {result?.truncated && <Alert kind="warning" message={T.explore.truncated(String(result.rows))} />}
      {result && (
        <section class="try-results" ref={results} aria-label={T.explore.results}>
          <Tabs label={T.explore.views} chosen={view} onChoose={setView} tabs={[{ name: "table", title: T.explore.table }, { name: "chart", title: T.explore.chart }, { name: "json", title: T.explore.json }]} />
          <div class="results-body">
            {result.rows === 0 && <Empty title={T.explore.noRows} />}
            {result.rows > 0 && view === "table" && <Table result={result} chosen={row} onChoose={setRow} />}
            {result.rows > 0 && view === "table" && row !== null && <Detail result={result} row={row} onClose={close} onMove={setRow} actions={{}} />}
            {result.rows > 0 && view === "chart" && <Chart result={result} />}
            {result.rows > 0 && view === "json" && <Json result={result} />}
          </div>
        </section>
      )}
    </div>
  );
}
