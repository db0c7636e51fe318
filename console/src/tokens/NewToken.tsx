// Making a token: its scopes, what it fixes, and in words what it will be able to do.
import { useState } from "preact/hooks";
import { json, linesOf, type Schemas } from "../api/client";
import { endpoints } from "../api/document";
import { useDraft } from "../drafts";
import { T } from "../text";
import { Alert, Dialog, Field, Toggle } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import type { MadeToken } from "../api/records";
import { inWords } from "./words";

type Reach = "none" | "one" | "all";

interface Form {
  description: string;
  query: Reach;
  endpoint: string;
  ingest: Reach;
  source: string;
  manage: boolean;
  pins: { name: string; value: string }[];
  days: string;
  rows: string;
}

export function NewToken({ onClose, onMade }: { onClose: () => void; onMade: (token: MadeToken) => void }) {
  const sources = useLoaded((signal) => json<Schemas["Source"][]>("/api/sources", { signal }), []);
  const kept = useDraft<Form>("new token", () => ({ description: "", query: "all", endpoint: endpoints.value?.[0]?.name ?? "", ingest: "none", source: "", manage: false, pins: [], days: "", rows: "" }));
  const { description, query, endpoint, ingest, source, manage, pins, days, rows } = kept.value;
  const setter = <Name extends keyof Form>(name: Name) => (value: Form[Name]): void => kept.update((form) => ({ ...form, [name]: value }));
  const [setDescription, setQuery, setEndpoint, setIngest, setSource] = [setter("description"), setter("query"), setter("endpoint"), setter("ingest"), setter("source")];
  const [setManage, setPins, setDays, setRows] = [setter("manage"), setter("pins"), setter("days"), setter("rows")];
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();

  const id = (list: { id: string; name: string }[] | null | undefined, name: string): string => (/\s/.test(name) ? (list?.find((one) => one.name === name)?.id ?? name) : name);
  const chosenSource = source || sources.value?.[0]?.name || "";
  const scopes = manage
    ? ["private"]
    : [...(query === "all" ? ["query"] : query === "one" ? [`query:endpoint:${endpoint}`] : []), ...(ingest === "all" ? ["ingest"] : ingest === "one" ? [`ingest:source:${id(sources.value, chosenSource)}`] : [])];
  const pinned = Object.fromEntries(pins.filter((pin) => pin.name !== "").map((pin) => [pin.name, pin.value]));
  const names = [...new Set((endpoints.value ?? []).flatMap((one) => one.parameters.map((parameter) => parameter.name)))];

  const make = (event: Event): void => {
    event.preventDefault();
    const body: Schemas["NewAccessToken"] = { description, scopes: scopes.join(" "), pinned: Object.keys(pinned).length > 0 ? pinned : null };
    if (days !== "") body.expires_at = new Date(Date.now() + Number(days) * 86_400_000).toISOString();
    if (rows !== "") body.limits = { rows: Number(rows) } as Schemas["NewAccessToken"]["limits"];
    setError(null);
    const made = (token: MadeToken): void => {
      kept.drop();
      onMade(token);
    };
    act(() => json<MadeToken>("/api/access-tokens", { method: "POST", body }), made, (failure) => setError(linesOf(failure)));
  };

  return (
    <Dialog title={T.tokens.create} onClose={onClose} busy={busy}>
      <form class="stack" onSubmit={make}>
        <Field label={T.tokens.description} hint={T.tokens.descriptionHint}>{(field) => <input id={field} value={description} onInput={(event) => setDescription(event.currentTarget.value)} />}</Field>
        <Toggle label={T.tokens.manage} hint={T.tokens.manageHint} value={manage} onChange={setManage} />
        {!manage && (
          <div class="grid">
            <Choice label={T.tokens.query} value={query} onChange={setQuery} />
            {query === "one" && <Names label={T.explore.endpoint} names={(endpoints.value ?? []).map((one) => one.name).filter((name) => !/\s/.test(name))} value={endpoint} onChange={setEndpoint} />}
            <Choice label={T.tokens.ingest} value={ingest} onChange={setIngest} />
            {ingest === "one" && <Names label={T.sources.name} names={(sources.value ?? []).map((one) => one.name)} value={chosenSource} onChange={setSource} />}
          </div>
        )}
        <fieldset>
          <legend>{T.tokens.pins}</legend>
          <p class="hint">{T.tokens.pinsHint}</p>
          {pins.map((pin, at) => (
            <div class="grid" key={at}>
              <Names label={T.parameters.name} names={names} value={pin.name} onChange={(name) => setPins(pins.map((one, index) => (index === at ? { ...one, name } : one)))} />
              <Field label={T.tokens.value}>{(field) => <input id={field} value={pin.value} onInput={(event) => setPins(pins.map((one, index) => (index === at ? { ...one, value: event.currentTarget.value } : one)))} />}</Field>
            </div>
          ))}
          <div class="actions"><button type="button" class="small" onClick={() => setPins([...pins, { name: names[0] ?? "", value: "" }])}>{T.tokens.addPin}</button></div>
        </fieldset>
        <div class="grid">
          <Field label={T.tokens.days} hint={T.tokens.daysHint}>{(field) => <input id={field} type="number" min={1} value={days} onInput={(event) => setDays(event.currentTarget.value)} />}</Field>
          <Field label={T.endpoints.rowsAtMost} hint={T.tokens.rowsHint}>{(field) => <input id={field} type="number" min={1} value={rows} onInput={(event) => setRows(event.currentTarget.value)} />}</Field>
        </div>
        <div>
          <h3>{T.tokens.willMay}</h3>
          {scopes.length === 0 ? <p class="hint">{T.tokens.nothing}</p> : <ul class="may">{inWords(scopes.join(" "), pinned).map((line) => <li key={line}>{line}</li>)}</ul>}
        </div>
        {error && <Alert message={error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={busy || scopes.length === 0}>{T.tokens.make}</button>
          <button type="button" disabled={busy} onClick={() => (kept.drop(), onClose())}>{T.common.cancel}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Choice({ label, value, onChange }: { label: string; value: Reach; onChange: (value: Reach) => void }) {
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value as Reach)}>
          {(["none", "one", "all"] as const).map((reach) => <option key={reach} value={reach}>{T.tokens.reach[reach]}</option>)}
        </select>
      )}
    </Field>
  );
}

function Names({ label, names, value, onChange }: { label: string; names: string[]; value: string; onChange: (value: string) => void }) {
  return (
    <Field label={label}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {names.map((name) => <option key={name}>{name}</option>)}
        </select>
      )}
    </Field>
  );
}
