// An alert as a form, and in words what it will do.
import { useState } from "preact/hooks";
import { isOvertaken, json, linesOf, onlyIf, segment, tagged, type Schemas } from "../api/client";
import { type EndpointInfo, timeBounds } from "../api/document";
import { useDraft } from "../drafts";
import { ParameterField } from "../query/ParameterField";
import { T } from "../text";
import { useAction } from "../ui/load";
import { Alert, Dialog, Field, Toggle } from "../ui/parts";
import { type AlertFields, alertInWords, COMPARISONS, type Comparison, conditionOf, textOf } from "./alertWords";
import { AlertWindow } from "./AlertWindow";
import { Aside, Conflict } from "./Conflict";
import { isSame, merged } from "./draft";

type Shown = Schemas["Alert"];
type Made = Schemas["MadeAlert"];

/** An alert as it was read, with its entity tag. */
export interface ReadAlert {
  alert: Shown;
  tag: string;
}

interface Draft {
  fields: AlertFields;
  base: { tag: string; fields: AlertFields } | null;
  aside?: AlertFields;
}

const draftFrom = (read: ReadAlert | null): Draft => ({ fields: fieldsOf(read?.alert ?? null), base: read && { tag: read.tag, fields: fieldsOf(read.alert) } });
const written = (fields: AlertFields): string => Object.entries(fields).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join("\n");

function fieldsOf(alert: Shown | null): AlertFields {
  if (alert === null) return { name: "", every_minutes: 5, condition: "rows > 0", url: "", parameters: {}, again_after_minutes: 0, notify_resolved: true, paused: false };
  const { name, description, every_minutes, condition, url, parameters, again_after_minutes, notify_resolved, paused } = alert;
  return { name, description, every_minutes, condition, url, parameters, again_after_minutes, notify_resolved, paused };
}

export function AlertForm({ endpoint, info, read, onClose, onSaved }: { endpoint: string; info: EndpointInfo | undefined; read: ReadAlert | null; onClose: () => void; onSaved: (saved: Shown | Made) => void }) {
  const alert = read?.alert ?? null;
  const kept = useDraft<Draft>(`alert ${endpoint} ${alert?.name ?? ""}`, () => draftFrom(read));
  const { fields, base } = kept.value;
  /** The alert as somebody else has changed it meanwhile. */
  const [newer, setNewer] = useState<ReadAlert | null>(() => (read && base && base.tag !== read.tag ? read : null));
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();
  const set = (change: Partial<AlertFields>): void => kept.update((draft) => ({ ...draft, fields: { ...draft.fields, ...change } }));
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
    const save = (): Promise<Shown | Made> => (alert === null ? json<Made>(path, { method: "POST", body: fields }) : json<Shown>(`${path}/${segment(alert.name)}`, { method: "PATCH", body: fields, headers: onlyIf(base?.tag) }));
    const done = (saved: Shown | Made): void => {
      kept.drop();
      onSaved(saved);
    };
    act(save, done, (failure) => {
      setError(linesOf(failure));
      if (!isOvertaken(failure) || !alert) return;
      tagged<Shown>(`${path}/${segment(alert.name)}`).then(({ value, tag }) => setNewer({ alert: value, tag }), () => undefined);
    });
  };
  const theirs = newer && fieldsOf(newer.alert);
  const mine = base && theirs ? merged(base.fields, fields, theirs) : fields;
  const isStale = theirs !== null && base !== null && !isSame(base.fields, theirs);
  const choose = (fields: AlertFields, aside?: AlertFields): void => {
    setError(null);
    setNewer(null);
    kept.set({ ...draftFrom(newer), fields, aside });
  };
  const bounds = timeBounds(info);
  const others = info?.parameters.filter((one) => one.name !== bounds?.start && one.name !== bounds?.end) ?? [];
  return (
    <Dialog title={alert === null ? T.alerts.create : T.alerts.change(alert.name)} onClose={onClose} busy={busy}>
      {isStale && theirs && <Conflict message={T.conflict.other(alert?.name ?? "")} theirs={written(theirs)} mine={written(mine)} keep={T.conflict.keep} take={T.conflict.take} onKeep={() => choose(mine)} onTake={() => choose(theirs, mine)} />}
      {kept.value.aside && <Aside onTake={() => kept.set({ ...kept.value, fields: kept.value.aside ?? fields, aside: undefined })} onDrop={() => kept.set({ ...kept.value, aside: undefined })} />}
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
              {info && bounds && <AlertWindow info={info} bounds={bounds} values={values} onChange={(parameters) => set({ parameters })} />}
              {others.map((one) => <ParameterField key={one.name} parameter={one} value={values[one.name] ?? ""} onChange={(value) => setParameter(one.name, value)} />)}
            </div>
          </fieldset>
        )}
        <Field label={T.alerts.url} hint={T.alerts.urlHint}>{(id) => <input id={id} type="url" required value={fields.url} spellcheck={false} onInput={(event) => set({ url: event.currentTarget.value })} />}</Field>
        <Field label={T.alerts.again} hint={T.alerts.againHint}>{(id) => <input id={id} type="number" min={0} max={1440} value={fields.again_after_minutes} onInput={(event) => set({ again_after_minutes: Number(event.currentTarget.value) })} />}</Field>
        <Toggle label={T.alerts.resolved} value={fields.notify_resolved ?? true} onChange={(notify_resolved) => set({ notify_resolved })} />
        <Toggle label={T.alerts.paused} hint={T.alerts.pausedHint} value={fields.paused ?? false} onChange={(paused) => set({ paused })} />
        <div>
          <h3>{T.alerts.willDo}</h3>
          <ul class="may">{alertInWords(fields, bounds).map((line) => <li key={line}>{line}</li>)}</ul>
          <p class="hint">{T.alerts.versionHint}</p>
        </div>
        {error && <Alert message={error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={busy || isStale}>{T.alerts.save}</button>
          <button type="button" disabled={busy} onClick={() => (kept.drop(), onClose())}>{T.common.cancel}</button>
        </div>
      </form>
    </Dialog>
  );
}
