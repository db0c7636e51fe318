// The definition of an endpoint: its query, its parameters, its settings. What a save would do is told before it is done.
import { useEffect, useRef, useState } from "preact/hooks";
import { isAbort, isOvertaken, json, linesOf, onlyIf, segment, tagged, type Schemas } from "../api/client";
import { reloadEndpoints } from "../api/document";
import type { Mistake } from "../editor/mistakes";
import { Editor } from "../editor/Lazy";
import { mistakesOf } from "../editor/mistakes";
import { T } from "../text";
import { Alert, Field, Toggle } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { dropDraft, useDraft } from "../drafts";
import { ago } from "../result/format";
import { Aside, Conflict } from "./Conflict";
import { type Draft, draftFrom, draftName, type Fields, fieldsOf, isSame, merged, type Read, written } from "./draft";
import { useSources } from "../query/schema";
import type { EndpointRecord } from "../api/records";
import { ParameterList } from "./ParameterList";

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

export function QueryForm({ read, onSaved, onNewer }: { read: Read | null; onSaved: (saved: Read) => void; onNewer: () => void }) {
  const sources = useLoaded((signal) => json<Schemas["Source"][]>("/api/sources", { signal }), []);
  if (read === null && sources.value === null) return sources.error ? <Alert message={sources.error} /> : <p class="hint">{T.common.loading}</p>;
  return <Form read={read} first={template(sources.value?.[0]?.name ?? "source")} sources={sources.value?.map((one) => one.name) ?? []} onSaved={onSaved} onNewer={onNewer} />;
}

function Form({ read, first, sources, onSaved, onNewer }: { read: Read | null; first: Fields; sources: string[]; onSaved: (saved: Read) => void; onNewer: () => void }) {
  const record = read?.record ?? null;
  const kept = useDraft<Draft>(draftName(record?.id), () => (read ? draftFrom(read) : { fields: first, base: null }));
  const start = record ? fieldsOf(record) : first;
  const own = kept.value;
  const { fields, base } = own;
  const tables = useSources(sources, fields.query ?? "");
  /** The fields as they are now, for what goes on after an answer. */
  const latest = useRef(own);
  latest.current = own;
  const checking = useRef<AbortController | null>(null);
  const [checked, setChecked] = useState<Checked | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [mistakes, setMistakes] = useState<Mistake[]>([]);
  const [isChecking, setChecking] = useState(false);
  const saving = useAction();
  const isCode = record?.kind === "wasm";
  const change = (draft: Draft): void => {
    latest.current = draft;
    kept.set(draft);
    setChecked(null);
    // What is being checked is another text now.
    checking.current?.abort();
  };
  const set = (fields: Partial<Fields>): void => change({ ...latest.current, fields: { ...latest.current.fields, ...fields } });
  // A newer version that changed nothing of this, such as one with another alert, is what it is made from now.
  const isNewer = read !== null && base !== null && base.tag !== read.tag;
  const isWritten = !isSame(fields, base?.fields ?? first);
  const stands = isNewer && isWritten && !isSame(base.fields, start) && !isSame(fields, start);
  useEffect(() => {
    if (read && isNewer && !stands) change({ ...latest.current, ...draftFrom(read), fields: isWritten ? latest.current.fields : start });
  }, [read?.tag]);
  useEffect(() => {
    // What is as it is saved is no draft.
    if (!isWritten && own.aside === undefined) dropDraft(draftName(record?.id));
  }, [own]);
  useEffect(() => () => checking.current?.abort(), []);
  const begin = (): void => {
    setError(null);
    setMistakes([]);
  };
  const failed = (failure: unknown): void => {
    setChecked(null);
    setError(linesOf(failure));
    setMistakes(mistakesOf(failure));
    if (isOvertaken(failure)) onNewer();
  };
  const check = async (): Promise<void> => {
    if (saving.busy) return;
    checking.current?.abort();
    const controller = (checking.current = new AbortController());
    const sent = latest.current.fields;
    begin();
    setChecking(true);
    try {
      const path = `/api/endpoints/${segment(record?.name ?? (sent.name || "unnamed"))}/check`;
      const found = await json<Checked>(path, { method: "POST", body: sent, headers: onlyIf(base?.tag), signal: controller.signal });
      // Only what was checked may be saved.
      if (latest.current.fields === sent && checking.current === controller) setChecked(found);
    } catch (failure) {
      if (checking.current === controller && !controller.signal.aborted && !isAbort(failure)) failed(failure);
    } finally {
      if (checking.current === controller) setChecking(false);
    }
  };
  const path = record ? `/api/endpoints/${segment(record.name)}` : "/api/endpoints";
  const save = (): void => {
    begin();
    saving.act(
      async () => {
        const { value, tag } = await tagged<EndpointRecord>(path, { method: record ? "PUT" : "POST", body: latest.current.fields, headers: onlyIf(base?.tag) });
        kept.drop();
        reloadEndpoints();
        // Also where another tab is shown by now.
        onSaved({ record: value, tag });
      },
      () => undefined,
      failed,
    );
  };
  /** What goes on where somebody else has saved a version: mine, merged with it, or that version. */
  const choose = (fields: Fields, aside?: Fields): void => {
    begin();
    change({ ...(read ? draftFrom(read) : { base: null }), fields, aside });
  };
  const busy = isChecking || saving.busy;
  const mine = base ? merged(base.fields, fields, start) : fields;
  return (
    <>
    {stands && read && base && (
      <Conflict
        message={T.conflict.endpoint(read.record.version, read.record.author ?? "", read.record.updated_at ? ago(Date.parse(read.record.updated_at)) : "", base.version)}
        theirs={written(start)}
        mine={written(mine)}
        keep={T.conflict.keepVersion(read.record.version)}
        take={T.conflict.takeVersion(read.record.version)}
        onKeep={() => choose(mine)}
        onTake={() => choose(start, mine)}
      />
    )}
    {own.aside !== undefined && <Aside onTake={() => change({ ...own, fields: own.aside ?? fields, aside: isWritten ? fields : undefined })} onDrop={() => change({ ...own, aside: undefined })} />}
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
          <Editor lines={16} text={fields.query ?? ""} language="sql" label={T.endpoints.query} mistakes={mistakes} tables={tables} readOnly={isCode} isHeadFolded={record === null} onChange={(query) => set({ query })} onRun={() => void check()} />
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
          <button type="button" disabled={busy || stands} onClick={() => void check()}>{T.endpoints.check}</button>
          <button type="button" class="primary" disabled={busy || stands || checked === null || checked.unchanged} onClick={save}>
            {record ? T.endpoints.saveVersion : T.endpoints.saveNew}
          </button>
          {isWritten && <button type="button" disabled={busy} onClick={() => choose(start, mine)}>{T.endpoints.discard}</button>}
        </div>
        {!checked && <p class="hint">{stands ? T.conflict.first : T.endpoints.checkFirst}</p>}
      </div>
    </div>
    </>
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
