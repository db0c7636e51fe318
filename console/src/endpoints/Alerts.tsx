// The alerts of an endpoint: their state, their last runs, and the ways to make, try, change and delete one.
import { useState } from "preact/hooks";
import { json, messageOf, segment, tagged, type Schemas } from "../api/client";
import { type EndpointInfo, timeBounds } from "../api/document";
import { ago, count, duration, time } from "../result/format";
import { T } from "../text";
import { Alert, Confirm, CopyButton, Dialog, Empty } from "../ui/parts";
import { useLoaded } from "../ui/load";
import { AlertForm, type ReadAlert } from "./AlertForm";
import { alertInWords } from "./alertWords";

type Shown = Schemas["Alert"];
type Run = Schemas["AlertRun"];
type Delivery = Schemas["AlertDelivery"];
type Test = Schemas["AlertTest"];

const pathOf = (endpoint: string, name: string): string => `/api/endpoints/${segment(endpoint)}/alerts/${segment(name)}`;
const when = (at: string | null | undefined): string => (at ? ago(Date.parse(at)) : "");

/** What became of a message, in words. */
function told({ state, status, error, delivered, given_up, attempt }: Delivery): string {
  if (delivered) return T.alerts.delivered(state, status ?? 200);
  return T.alerts.notDelivered(state, error ?? T.alerts.answered(status ?? 0), attempt, given_up);
}

export function Alerts({ endpoint, info, onChanged }: { endpoint: string; info: EndpointInfo | undefined; onChanged: () => void }) {
  const { value, error, reload } = useLoaded((signal) => json<Shown[]>(`/api/endpoints/${segment(endpoint)}/alerts`, { signal }), [endpoint], 3000);
  const [editing, setEditing] = useState<ReadAlert | "new" | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  // As it is now, and not as the list had it.
  const edit = (name: string): void => {
    setProblem(null);
    tagged<Shown>(pathOf(endpoint, name)).then(({ value, tag }) => setEditing({ alert: value, tag }), (failure: unknown) => setProblem(messageOf(failure)));
  };
  const [secret, setSecret] = useState<string | null>(null);
  const [warnings, setWarnings] = useState<string[]>([]);
  // A form that is open stays so: what is told here is of another alert, or comes late.
  const changed = (): void => {
    reload();
    onChanged();
  };
  return (
    <div class="stack">
      <div class="actions">
        <p class="hint">{T.alerts.hint}</p>
        <span class="spacer" />
        <button type="button" class="primary" onClick={() => setEditing("new")}>{T.alerts.create}</button>
      </div>
      {(error ?? problem) && <Alert message={error ?? problem ?? ""} />}
      {warnings.length > 0 && <Alert kind="warning" message={warnings.join("\n")} />}
      {value?.length === 0 && <Empty title={T.alerts.none}>{T.alerts.noneHint}</Empty>}
      {value?.map((one) => <One key={one.name} endpoint={endpoint} info={info} alert={one} onEdit={() => edit(one.name)} onChanged={changed} onSecret={setSecret} />)}
      {editing && (
        <AlertForm
          endpoint={endpoint}
          info={info}
          key={editing === "new" ? "new" : editing.alert.name}
          read={editing === "new" ? null : editing}
          onClose={() => setEditing(null)}
          onSaved={(saved) => {
            setEditing(null);
            changed();
            setWarnings(saved.warnings ?? []);
            if ("secret" in saved) setSecret(saved.secret);
          }}
        />
      )}
      {secret !== null && (
        <Dialog title={T.alerts.secretTitle} onClose={() => setSecret(null)}>
          <p>{T.alerts.secretOnce}</p>
          <p class="secret" data-secret>{secret}</p>
          <div class="actions">
            <CopyButton text={secret} label={T.alerts.copySecret} />
            <button type="button" onClick={() => setSecret(null)}>{T.common.close}</button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function One({ endpoint, info, alert, onEdit, onChanged, onSecret }: { endpoint: string; info: EndpointInfo | undefined; alert: Shown; onEdit: () => void; onChanged: () => void; onSecret: (secret: string) => void }) {
  const path = pathOf(endpoint, alert.name);
  const runs = useLoaded((signal) => json<Run[]>(`${path}/runs`, { signal }), [path, alert.last_run?.at]);
  const [said, setSaid] = useState<{ message: string; kind: "done" | "error" | "warning" } | null>(null);
  const [busy, setBusy] = useState(false);
  const [removing, setRemoving] = useState(false);
  const act = async (work: () => Promise<{ message: string; kind: "done" | "error" | "warning" } | null>): Promise<void> => {
    setBusy(true);
    try {
      setSaid(await work());
    } catch (failure) {
      setSaid({ message: messageOf(failure), kind: "error" });
    } finally {
      setBusy(false);
    }
  };
  const test = () =>
    act(async () => {
      const sent = await json<Test>(`${path}/test`, { method: "POST" });
      return { message: `${told(sent)} ${sent.holds ? T.alerts.holdsNow : T.alerts.holdsNotNow}`, kind: sent.delivered ? "done" : "error" };
    });
  const runNow = () =>
    act(async () => {
      const run = await json<Run>(`${path}/runs`, { method: "POST" });
      onChanged();
      return run.error ? { message: run.error.message, kind: "error" } : { message: run.holds ? T.alerts.holdsNow : T.alerts.holdsNotNow, kind: "done" };
    });
  const renew = () =>
    act(async () => {
      onSecret((await json<Schemas["AlertSecret"]>(`${path}/secret`, { method: "POST", body: {} })).secret);
      return null;
    });
  const remove = () =>
    act(async () => {
      setRemoving(false);
      await json(path, { method: "DELETE" });
      onChanged();
      return null;
    });
  const state = alert.paused ? "paused" : alert.firing ? "firing" : "quiet";
  return (
    <section class="card" aria-label={T.alerts.one(alert.name)} data-alert-state={state}>
      <div class="actions">
        <h2>{alert.name}</h2>
        <span class={state === "firing" ? "tag warning" : "tag"}>{T.alerts.states[state]}</span>
        {alert.firing && alert.since && <span class="hint">{T.alerts.since(when(alert.since))}</span>}
        <span class="spacer" />
        <button type="button" class="small" disabled={busy} onClick={() => void test()} aria-label={T.alerts.testOf(alert.name)}>{T.alerts.test}</button>
        <button type="button" class="small" disabled={busy} onClick={() => void runNow()} aria-label={T.alerts.runOf(alert.name)}>{T.alerts.run}</button>
        <button type="button" class="small" disabled={busy} onClick={() => void renew()} aria-label={T.alerts.renewOf(alert.name)}>{T.alerts.renew}</button>
        <button type="button" class="small" disabled={busy} onClick={onEdit} aria-label={T.alerts.change(alert.name)}>{T.alerts.edit}</button>
        <button type="button" class="small danger" disabled={busy} onClick={() => setRemoving(true)} aria-label={T.alerts.removeOf(alert.name)}>{T.alerts.remove}</button>
      </div>
      <ul class="may">{alertInWords(alert, timeBounds(info)).map((line) => <li key={line}>{line}</li>)}</ul>
      {said && <Alert message={said.message} kind={said.kind} />}
      {alert.last_delivery && <p class={alert.last_delivery.delivered ? "hint" : "bad"}>{T.alerts.lastMessage(when(alert.last_delivery.at))} {told(alert.last_delivery)}</p>}
      {runs.error && <Alert message={runs.error} />}
      {runs.value?.length === 0 && <p class="hint">{T.alerts.noRuns}</p>}
      {runs.value && runs.value.length > 0 && (
        <details>
          <summary>{T.alerts.runs(runs.value.length)}</summary>
          <div class="list-frame">
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">{T.alerts.at}</th>
                  <th scope="col" class="number">{T.result.rows}</th>
                  <th scope="col" class="number">{T.alerts.value}</th>
                  <th scope="col">{T.alerts.outcome}</th>
                  <th scope="col" class="number">{T.alerts.took}</th>
                </tr>
              </thead>
              <tbody>
                {runs.value.map((run, at) => (
                  <tr key={`${run.at} ${at}`}>
                    <td title={run.at ? time(Date.parse(run.at)) : ""}>{when(run.at)}</td>
                    <td class="number">{run.rows === null ? "" : count(run.rows)}</td>
                    <td class="number">{run.value === null ? "" : String(run.value)}</td>
                    <td>{run.error ? <span class="bad">{run.error.message}</span> : run.message ? T.alerts.made[run.message] : run.holds ? T.alerts.held : T.alerts.heldNot}</td>
                    <td class="number">{duration(run.milliseconds)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
      {removing && (
        <Confirm title={T.alerts.removeTitle(alert.name)} verb={T.alerts.remove} onConfirm={() => void remove()} onClose={() => setRemoving(false)}>
          <p>{T.alerts.removeText}</p>
        </Confirm>
      )}
    </section>
  );
}
