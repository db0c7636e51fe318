// Trying an endpoint as a caller would: its parameters as a form, its answer as table, chart and JSON.
import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, linesOf } from "../api/client";
import type { EndpointInfo, ParameterInfo } from "../api/document";
import { useDraft } from "../drafts";
import { ParameterField } from "../query/ParameterField";
import { Chart } from "../result/Chart";
import { Detail } from "../result/Detail";
import { Json } from "../result/Json";
import { type Parameters, run, runDraft } from "../result/run";
import { summary } from "../result/summary";
import { Table } from "../result/Table";
import type { Result } from "../result/types";
import { T } from "../text";
import { Alert, Empty, Tabs } from "../ui/parts";
import { type Fields, parametersOf } from "./draft";

type View = "table" | "chart" | "json";

function presets(parameters: ParameterInfo[]): Parameters {
  return Object.fromEntries(parameters.map((one) => [one.name, one.preset || (one.required ? (one.choices[0] ?? "") : "")]));
}

/** `draft` is what is written and not saved: that is run in the place of the saved version. */
export function Try({ name, info, draft, isNew }: { name: string; info: EndpointInfo | undefined; draft: Partial<Fields> | null; isNew: boolean }) {
  const parameters = draft ? parametersOf(draft) : (info?.parameters ?? []);
  const written = useDraft<Parameters>(`parameters ${isNew ? "" : name}`, () => ({}));
  const values = { ...presets(parameters), ...written.value };
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
      const found = draft ? await runDraft(name, draft, values, own.signal) : await run(name, values, own.signal);
      if (controller.current !== own || own.signal.aborted) return;
      setResult(found);
      setRow(null);
    } catch (failure) {
      if (controller.current === own && !isAbort(failure)) {
        setError(linesOf(failure));
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
          {parameters.map((one) => <ParameterField key={one.name} parameter={one} value={values[one.name] ?? ""} onChange={(value) => written.update((before) => ({ ...before, [one.name]: value }))} />)}
        </div>
        {parameters.length === 0 && <p class="hint">{T.endpoints.noParameters}</p>}
        <div class="actions">
          <button type="submit" class="primary">{T.explore.run}</button>
          <button type="button" disabled={!running} onClick={() => controller.current?.abort()}>{T.explore.cancel}</button>
          <span class="status" role="status">{running ? T.explore.running : result ? summary(result) : ""}</span>
        </div>
      </form>
      {draft && <Alert kind="warning" message={isNew ? T.endpoints.isNewDraft : T.endpoints.isDraft} />}
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
