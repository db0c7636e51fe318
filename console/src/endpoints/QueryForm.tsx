// The definition of an endpoint: its query, its parameters, its settings. What a save would do is told before it is done.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, isAbort, json, messageOf, segment, type Schemas } from "../api/client";
import { reloadEndpoints } from "../api/document";
import type { Mistake } from "../editor/Editor";
import { Editor } from "../editor/Lazy";
import { mistakesOf } from "../editor/mistakes";
import { T } from "../text";
import { Alert, Field, Toggle } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { draft } from "./draft";
import type { EndpointRecord } from "./Endpoints";
import { ParameterList } from "./ParameterList";

type Fields = Schemas["NewEndpoint"];
type Checked = Schemas["CheckedEndpoint"];

/** What a new endpoint begins with. */
function template(source: string): Fields {
  return {
    name: "",
    description: "",
    query: `-- The granted table: callers may query it, and nothing else.\nWITH logs AS (\n  SELECT id, timestamp, event_message, metadata\n  FROM \`${source}\`\n  WHERE project = @project\n)\nSELECT timestamp, event_message\nFROM logs\nORDER BY timestamp DESC`,
    parameters: [{ name: "project", required: true, kind: "text", description: "The project whose logs are read" }],
    max_limit: 1000,
    cache_duration_seconds: 0,
    proactive_requerying_seconds: null,
    sandboxable: true,
    redact_pii: false,
  };
}

function fieldsOf(record: EndpointRecord): Fields {
  const { name, description, query, parameters, max_limit, cache_duration_seconds, proactive_requerying_seconds, sandboxable, redact_pii } = record;
  return { name, description, query, parameters, max_limit, cache_duration_seconds, proactive_requerying_seconds, sandboxable, redact_pii };
}

export function QueryForm({ record, onSaved }: { record: EndpointRecord | null; onSaved: (record: EndpointRecord) => void }) {
  const sources = useLoaded((signal) => json<Schemas["Source"][]>("/api/sources", { signal }), []);
  if (record === null && sources.value === null) return sources.error ? <Alert message={sources.error} /> : <p class="hint">{T.common.loading}</p>;
  return <Form record={record} start={record ? fieldsOf(record) : (draft.value ?? template(sources.value?.[0]?.name ?? "source"))} sources={sources.value?.map((one) => one.name) ?? []} onSaved={onSaved} />;
}

function Form({ record, start, sources, onSaved }: { record: EndpointRecord | null; start: Fields; sources: string[]; onSaved: (record: EndpointRecord) => void }) {
  const [fields, setFields] = useState<Fields>(start);
  /** The fields as they are now, for what goes on after an answer. */
  const latest = useRef(fields);
  const checking = useRef<AbortController | null>(null);
  const [checked, setChecked] = useState<Checked | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [mistakes, setMistakes] = useState<Mistake[]>([]);
  const [isChecking, setChecking] = useState(false);
  const saving = useAction();
  const isCode = record?.kind === "wasm";
  const set = (change: Partial<Fields>): void => {
    latest.current = { ...latest.current, ...change };
    setFields(latest.current);
    setChecked(null);
    // What is being checked is another text now.
    checking.current?.abort();
  };
  useEffect(() => () => checking.current?.abort(), []);
  const begin = (): void => {
    setError(null);
    setMistakes([]);
  };
  const failed = (failure: unknown): void => {
    setChecked(null);
    setError(failure instanceof Failure && failure.errors.length > 1 ? failure.errors.map((one) => one.message).join("\n") : messageOf(failure));
    setMistakes(mistakesOf(failure));
  };
  const check = async (): Promise<void> => {
    if (saving.busy) return;
    checking.current?.abort();
    const own = (checking.current = new AbortController());
    const sent = latest.current;
    begin();
    setChecking(true);
    try {
      const found = await json<Checked>(`/api/endpoints/${segment(record?.name ?? (sent.name || "unnamed"))}/check`, { method: "POST", body: sent, signal: own.signal });
      // Only what was checked may be saved.
      if (latest.current === sent && checking.current === own) setChecked(found);
    } catch (failure) {
      if (checking.current === own && !own.signal.aborted && !isAbort(failure)) failed(failure);
    } finally {
      if (checking.current === own) setChecking(false);
    }
  };
  const path = record ? `/api/endpoints/${segment(record.name)}` : "/api/endpoints";
  const save = (): void => {
    begin();
    saving.act(
      async () => {
        const saved = await json<EndpointRecord>(path, { method: record ? "PUT" : "POST", body: latest.current });
        draft.value = null;
        reloadEndpoints();
        return saved;
      },
      onSaved,
      failed,
    );
  };
  const busy = isChecking || saving.busy;
  return (
    <div class="columns">
      {/* What is written while it is saved would be lost with the answer. */}
      <div class="stack" inert={saving.busy}>
        {record === null && (
          <Field label={T.endpoints.name} hint={T.endpoints.nameHint}>
            {(id) => <input id={id} value={fields.name ?? ""} spellcheck={false} onInput={(event) => set({ name: event.currentTarget.value })} />}
          </Field>
        )}
        <Field label={T.endpoints.description}>{(id) => <input id={id} value={fields.description ?? ""} onInput={(event) => set({ description: event.currentTarget.value })} />}</Field>
        <div class="field">
          <h2>{T.endpoints.query}</h2>
          <Editor lines={16} text={fields.query ?? ""} language="sql" label={T.endpoints.query} mistakes={mistakes} tables={new Map(sources.map((name) => [name, []]))} readOnly={isCode} onChange={(query) => set({ query })} onRun={() => void check()} />
          <p class="hint">{isCode ? T.endpoints.codeHint : T.endpoints.queryHint}</p>
        </div>
        <ParameterList parameters={fields.parameters ?? []} onChange={(parameters) => set({ parameters })} />
      </div>
      <div class="stack">
        <fieldset disabled={saving.busy}>
          <legend>{T.endpoints.settings}</legend>
          <Toggle label={T.endpoints.sandbox} hint={T.endpoints.sandboxHint} value={fields.sandboxable ?? false} onChange={(sandboxable) => set({ sandboxable })} />
          <Toggle label={T.endpoints.redact} hint={T.endpoints.redactHint} value={fields.redact_pii ?? false} onChange={(redact_pii) => set({ redact_pii })} />
          <Count label={T.endpoints.rowsAtMost} hint={T.endpoints.rowsHint} value={fields.max_limit ?? 1000} onChange={(value) => set({ max_limit: value ?? 1000 })} />
          <Count label={T.endpoints.cache} hint={T.endpoints.cacheHint} value={fields.cache_duration_seconds ?? 0} onChange={(value) => set({ cache_duration_seconds: value ?? 0 })} />
          <Count label={T.endpoints.warming} hint={T.endpoints.warmingHint} value={fields.proactive_requerying_seconds ?? null} onChange={(value) => set({ proactive_requerying_seconds: value })} />
        </fieldset>
        {error && <Alert message={error} />}
        {checked && <Findings checked={checked} />}
        <div class="actions">
          <button type="button" disabled={busy} onClick={() => void check()}>{T.endpoints.check}</button>
          <button type="button" class="primary" disabled={busy || checked === null || checked.unchanged} onClick={save}>
            {record ? T.endpoints.saveVersion : T.endpoints.saveNew}
          </button>
        </div>
        {!checked && <p class="hint">{T.endpoints.checkFirst}</p>}
      </div>
    </div>
  );
}

function Findings({ checked }: { checked: Checked }) {
  if (checked.unchanged) return <Alert kind="done" message={T.endpoints.unchanged} />;
  const next = checked.version === null ? T.endpoints.wouldCreate(checked.name) : T.endpoints.wouldSave(checked.version + 1);
  return (
    <>
      <Alert kind="done" message={next} />
      {checked.warnings.map((warning) => <Alert key={warning} kind="warning" message={warning} />)}
      {checked.grants.length > 0 && (
        <section>
          <h2>{T.endpoints.lineage}</h2>
          <ul class="may">
            {checked.grants.map(({ table, parameters, reads }) => (
              <li key={table}>
                <code>{table}</code>
                <p class="hint">{parameters.length > 0 ? T.endpoints.narrowed(parameters) : T.endpoints.notNarrowed}</p>
                {Object.entries(reads).map(([source, columns]) => <p key={source} class="hint"><code>{source}</code>: {columns.join(", ")}</p>)}
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

function Count({ label, hint, value, onChange }: { label: string; hint: string; value: number | null; onChange: (value: number | null) => void }) {
  return (
    <Field label={label} hint={hint}>
      {(id) => <input id={id} type="number" min={0} value={value === null ? "" : String(value)} onInput={(event) => onChange(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))} />}
    </Field>
  );
}
