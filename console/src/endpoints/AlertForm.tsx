// An alert as a form, and in words what it will do.
import { useState } from "preact/hooks";
import { Failure, json, messageOf, segment, type Schemas } from "../api/client";
import type { EndpointInfo } from "../api/document";
import { ParameterField } from "../explore/Sidebar";
import { T } from "../text";
import { useAction } from "../ui/load";
import { Alert, Dialog, Field, Toggle } from "../ui/parts";
import { type AlertFields, alertInWords, COMPARISONS, type Comparison, conditionOf, textOf } from "./alertWords";

type Shown = Schemas["Alert"];
type Made = Schemas["MadeAlert"];

function fieldsOf(alert: Shown | null): AlertFields {
  if (alert === null) return { name: "", every_minutes: 5, condition: "rows > 0", url: "", parameters: {}, again_after_minutes: 0, notify_resolved: true, paused: false };
  const { name, description, every_minutes, condition, url, parameters, again_after_minutes, notify_resolved, paused } = alert;
  return { name, description, every_minutes, condition, url, parameters, again_after_minutes, notify_resolved, paused };
}

export function AlertForm({ endpoint, info, alert, onClose, onSaved }: { endpoint: string; info: EndpointInfo | undefined; alert: Shown | null; onClose: () => void; onSaved: (saved: Shown | Made) => void }) {
  const [fields, setFields] = useState<AlertFields>(() => fieldsOf(alert));
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();
  const set = (change: Partial<AlertFields>): void => setFields({ ...fields, ...change });
  const condition = conditionOf(fields.condition);
  const setCondition = (change: Partial<typeof condition>): void => set({ condition: textOf({ ...condition, ...change }) });
  const values = fields.parameters ?? {};
  const setParameter = (name: string, value: string): void => {
    const { [name]: _old, ...others } = values;
    set({ parameters: value === "" ? others : { ...others, [name]: value } });
  };
  const save = (event: Event): void => {
    event.preventDefault();
    const path = `/api/endpoints/${segment(endpoint)}/alerts`;
    setError(null);
    const save = (): Promise<Shown | Made> => (alert === null ? json<Made>(path, { method: "POST", body: fields }) : json<Shown>(`${path}/${segment(alert.name)}`, { method: "PATCH", body: fields }));
    act(save, onSaved, (failure) => setError(failure instanceof Failure && failure.errors.length > 1 ? failure.errors.map((one) => one.message).join("\n") : messageOf(failure)));
  };
  return (
    <Dialog title={alert === null ? T.alerts.create : T.alerts.change(alert.name)} onClose={onClose} busy={busy}>
      <form class="stack" onSubmit={save}>
        <div class="grid">
          <Field label={T.alerts.name}>{(id) => <input id={id} required maxLength={64} value={fields.name} onInput={(event) => set({ name: event.currentTarget.value })} />}</Field>
          <Field label={T.alerts.every}>{(id) => <input id={id} type="number" required min={1} max={1440} value={fields.every_minutes} onInput={(event) => set({ every_minutes: Number(event.currentTarget.value) })} />}</Field>
        </div>
        <fieldset>
          <legend>{T.alerts.condition}</legend>
          <div class="grid">
            <Field label={T.alerts.subject}>
              {(id) => (
                <select id={id} value={condition.column === null ? "rows" : "column"} onChange={(event) => setCondition({ column: event.currentTarget.value === "rows" ? null : "" })}>
                  <option value="rows">{T.alerts.ofRows}</option>
                  <option value="column">{T.alerts.ofColumn}</option>
                </select>
              )}
            </Field>
            {condition.column !== null && <Field label={T.alerts.column}>{(id) => <input id={id} required value={condition.column ?? ""} spellcheck={false} onInput={(event) => setCondition({ column: event.currentTarget.value })} />}</Field>}
            <Field label={T.alerts.comparison}>
              {(id) => (
                <select id={id} value={condition.comparison} onChange={(event) => setCondition({ comparison: event.currentTarget.value as Comparison })}>
                  {COMPARISONS.map((one) => <option key={one} value={one}>{T.alerts.comparisons[one]}</option>)}
                </select>
              )}
            </Field>
            <Field label={T.alerts.number}>{(id) => <input id={id} type="number" step="any" required value={condition.number} onInput={(event) => setCondition({ number: event.currentTarget.value || "0" })} />}</Field>
          </div>
        </fieldset>
        {(info?.parameters.length ?? 0) > 0 && (
          <fieldset>
            <legend>{T.parameters.title}</legend>
            <div class="grid">
              {info?.parameters.map((one) => <ParameterField key={one.name} parameter={one} value={values[one.name] ?? ""} onChange={(value) => setParameter(one.name, value)} />)}
            </div>
          </fieldset>
        )}
        <Field label={T.alerts.url} hint={T.alerts.urlHint}>{(id) => <input id={id} type="url" required value={fields.url} spellcheck={false} onInput={(event) => set({ url: event.currentTarget.value })} />}</Field>
        <Field label={T.alerts.again} hint={T.alerts.againHint}>{(id) => <input id={id} type="number" min={0} max={1440} value={fields.again_after_minutes} onInput={(event) => set({ again_after_minutes: Number(event.currentTarget.value) })} />}</Field>
        <Toggle label={T.alerts.resolved} value={fields.notify_resolved ?? true} onChange={(notify_resolved) => set({ notify_resolved })} />
        <Toggle label={T.alerts.paused} hint={T.alerts.pausedHint} value={fields.paused ?? false} onChange={(paused) => set({ paused })} />
        <div>
          <h3>{T.alerts.willDo}</h3>
          <ul class="may">{alertInWords(fields).map((line) => <li key={line}>{line}</li>)}</ul>
          <p class="hint">{T.alerts.versionHint}</p>
        </div>
        {error && <Alert message={error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={busy}>{T.alerts.save}</button>
          <button type="button" disabled={busy} onClick={onClose}>{T.common.cancel}</button>
        </div>
      </form>
    </Dialog>
  );
}
