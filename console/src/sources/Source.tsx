// One source: how much it holds, its fields, how long it keeps rows, and how to send to it.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, isOvertaken, json, messageOf, onlyIf, segment, tagged, type Schemas } from "../api/client";
import { SourceReaders } from "../access/SourceReaders";
import { dropDraft, useDraft } from "../drafts";
import { Aside, Conflict } from "../endpoints/Conflict";
import { isSame, merged } from "../endpoints/draft";
import { address, go } from "../route";
import { ago, bytes, count, time } from "../result/format";
import { T } from "../text";
import { Alert, Confirm, Field, Page, Tabs, styled } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { Sending } from "./Sending";
import type { SourceRecord } from "../api/records";
import { retention } from "./retention";
import { tenantOf, tenantText } from "./tenant";

/** The most fields that are listed. */
const MOST_FIELDS = 1000;

/** A source as it was read, with the entity tag of its settings. */
interface ReadSource {
  value: SourceRecord;
  tag: string;
}

type Tab = "fields" | "readers" | "sending" | "settings";

export function Source({ name }: { name: string }) {
  const path = `/api/sources/${segment(name)}`;
  const { value: read, error, reload } = useLoaded((signal) => tagged<SourceRecord>(path, { signal }), [path], 5000);
  const value = read?.value ?? null;
  const [tab, setTab] = useState<Tab>("fields");
  const rate = useRate(value);
  return (
    <Page title={name} above={{ title: T.nav.sources, href: address(["sources"]) }} error={error}>
      {value && (
        <>
          <dl class="figures">
            <div><dt>{T.sources.rows}</dt><dd>{count(value.rows ?? 0)}</dd></div>
            <div><dt>{T.sources.size}</dt><dd>{bytes(value.bytes ?? 0)}</dd></div>
            <div><dt>{T.sources.newest}</dt><dd title={value.newest ? time(Date.parse(value.newest)) : ""}>{value.newest ? ago(Date.parse(value.newest)) : T.common.never}</dd></div>
            <div><dt>{T.sources.oldest}</dt><dd title={value.oldest ? time(Date.parse(value.oldest)) : ""}>{value.oldest ? ago(Date.parse(value.oldest)) : T.common.never}</dd></div>
            <div><dt>{T.sources.segments}</dt><dd>{count(value.segments ?? 0)}</dd></div>
            <div><dt>{T.sources.memory}</dt><dd>{count(value.memory_rows ?? 0)}</dd></div>
            <div><dt>{T.sources.rate}</dt><dd>{rate === null ? "–" : rate < 10 ? rate.toFixed(1) : count(Math.round(rate))}</dd></div>
            <div><dt>{T.sources.retention}</dt><dd>{retention(value)}</dd></div>
          </dl>
          {value.overflows && <Alert kind="warning" message={T.sources.overflows(value.max_fields ?? 0)} />}
          <Tabs label={T.sources.parts} chosen={tab} onChoose={setTab} tabs={(["fields", "readers", "sending", "settings"] as const).map((one) => ({ name: one, title: T.sources.tabs[one] }))} />
          {tab === "fields" && <Fields path={path} />}
          {tab === "readers" && <SourceReaders name={value.name} />}
          {tab === "sending" && <Sending name={name} onSent={reload} />}
          {tab === "settings" && read && <Settings key={value.id} read={read} onSaved={(saved) => (saved.name === name ? reload() : go(["sources", saved.name]))} />}
        </>
      )}
    </Page>
  );
}

/** How many rows a second came in between the last two readings. Null before the second one. */
function useRate(source: SourceRecord | null): number | null {
  const last = useRef<{ time: number; rows: number; rate: number | null; source: SourceRecord } | null>(null);
  if (source && last.current?.source !== source) {
    const before = last.current;
    const [time, rows] = [Date.now(), source.rows ?? 0];
    // Retention takes rows away; that is no rate of arrival.
    const rate = before ? Math.max(0, (1000 * (rows - before.rows)) / Math.max(1, time - before.time)) : null;
    last.current = { time, rows, rate, source };
  }
  return last.current?.rate ?? null;
}

function Fields({ path }: { path: string }) {
  const { value, error } = useLoaded(
    async (signal) => {
      const [schema, rates] = await Promise.all([json<Schemas["SourceSchema"]>(`${path}/schema`, { signal }), json<Schemas["FillRates"]>(`${path}/fill-rates`, { signal })]);
      return { schema: Object.entries(schema), rates };
    },
    [path],
  );
  const [filter, setFilter] = useState("");
  if (error) return <Alert message={error} />;
  if (!value) return <p class="hint">{T.common.loading}</p>;
  const shown = value.schema.filter(([name]) => name.toLowerCase().includes(filter.toLowerCase()));
  return (
    <div class="stack">
      <input type="search" aria-label={T.explore.findField} placeholder={T.explore.findField} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      <div class="list-frame">
        <table class="list">
          <thead>
            <tr>
              <th scope="col">{T.sources.field}</th>
              <th scope="col">{T.sources.type}</th>
              <th scope="col">{T.sources.filledIn(value.rates.counted_rows, value.rates.rows)}</th>
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, MOST_FIELDS).map(([name, type]) => {
              const found = value.rates.fields[name];
              const share = found === undefined || value.rates.counted_rows === 0 ? null : (100 * found) / value.rates.counted_rows;
              return (
                <tr key={name}>
                  <td><code>{name}</code></td>
                  <td class="nowrap"><span class="hint">{type}</span></td>
                  <td>
                    {share !== null && (
                      <div class="share">
                        <span>{Math.round(share)} %</span>
                        <div class="meter"><i ref={styled({ width: `${share}%` })} /></div>
                      </div>
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {shown.length > MOST_FIELDS && <p class="hint">{T.explore.moreFields(shown.length - MOST_FIELDS)}</p>}
    </div>
  );
}

/** What a change would open, and how it is made all the same. */
interface Widening {
  told: string[];
  again: () => void;
}

interface Written {
  name: string;
  days: string;
  tenant: string;
}

interface Draft {
  fields: Written;
  base: { tag: string; fields: Written };
  aside?: Written;
}

function writtenOf(source: SourceRecord): Written {
  const { name, retention_days, tenant } = source;
  return { name, days: retention_days === null || retention_days === undefined ? "" : String(retention_days), tenant: tenantText(tenant) };
}

const draftFrom = ({ value, tag }: ReadSource): Draft => ({ fields: writtenOf(value), base: { tag, fields: writtenOf(value) } });
const linesOf = ({ name, days, tenant }: Written): string => `${T.sources.name}: ${name}\n${T.sources.keepDays}: ${days}\n${T.sources.tenant}: ${tenant}`;

function Settings({ read, onSaved }: { read: ReadSource; onSaved: (source: SourceRecord) => void }) {
  const source = read.value;
  const kept = useDraft<Draft>(`source ${source.id}`, () => draftFrom(read));
  const { fields: { name, days, tenant }, base } = kept.value;
  const set = (change: Partial<Written>): void => kept.update((draft) => ({ ...draft, fields: { ...draft.fields, ...change } }));
  const theirs = writtenOf(source);
  const isWritten = !isSame(kept.value.fields, base.fields);
  const isStale = base.tag !== read.tag && isWritten && !isSame(base.fields, theirs) && !isSame(kept.value.fields, theirs);
  const mine = merged(base.fields, kept.value.fields, theirs);
  useEffect(() => {
    if (base.tag !== read.tag && !isStale) kept.set({ ...draftFrom(read), fields: isWritten ? mine : theirs, aside: kept.value.aside });
  }, [read.tag]);
  useEffect(() => {
    if (!isWritten && !kept.value.aside) dropDraft(`source ${source.id}`);
  }, [kept.value]);
  const choose = (fields: Written, aside?: Written): void => {
    setMessage(null);
    kept.set({ ...draftFrom(read), fields, aside });
  };
  const [message, setMessage] = useState<{ text: string; kind: "done" | "error" | "warning" } | null>(null);
  const [removing, setRemoving] = useState(false);
  // A change that opens rows, with what the server says of it: it is made once somebody has read that.
  const [widening, setWidening] = useState<Widening | null>(null);
  const { busy, act } = useAction();
  const fail = (failure: unknown): void => setMessage({ text: messageOf(failure), kind: "error" });
  const refused = (again: () => void) => (failure: unknown): void => {
    if (isOvertaken(failure)) onSaved(source);
    const opens = failure instanceof Failure && failure.code === "conflict";
    setWidening(opens ? { told: failure.errors.map((one) => one.message), again } : null);
    if (!opens) fail(failure);
  };
  const save = (widens: boolean): void => {
    const body: Schemas["SourceFields"] = { name, retention_days: days === "" ? null : Number(days) };
    // What somebody else has set meanwhile is left alone, unless this field was changed.
    if (tenant !== base.fields.tenant) {
      const parsed = tenantOf(tenant);
      if ("wrong" in parsed) {
        setMessage({ text: T.sources.tenantWrong(parsed.wrong), kind: "error" });
        return;
      }
      body.tenant = parsed.tenant;
    }
    if (widens) body.widens = true;
    act(
      () => tagged<SourceRecord>(`/api/sources/${source.id}`, { method: "PUT", body, headers: onlyIf(base.tag) }),
      (done) => {
        const saved = done.value;
        kept.set(draftFrom(done));
        setWidening(null);
        const wider = saved.warnings ?? [];
        setMessage(wider.length > 0 ? { text: [T.sources.settingsSaved, ...wider].join("\n"), kind: "warning" } : { text: T.sources.settingsSaved, kind: "done" });
        onSaved(saved);
      },
      refused(() => save(true)),
    );
  };
  const remove = (widens: boolean): void =>
    act(
      () => json(`/api/sources/${source.id}${widens ? "?widens=true" : ""}`, { method: "DELETE" }),
      () => go(["sources"]),
      (failure) => {
        setRemoving(false);
        refused(() => remove(true))(failure);
      },
    );
  return (
    <form class="card" onSubmit={(event) => { event.preventDefault(); save(false); }}>
      {isStale && <Conflict message={T.conflict.other(source.name)} theirs={linesOf(theirs)} mine={linesOf(mine)} keep={T.conflict.keep} take={T.conflict.take} onKeep={() => choose(mine)} onTake={() => choose(theirs, mine)} />}
      {kept.value.aside && <Aside onTake={() => kept.set({ ...kept.value, fields: kept.value.aside ?? kept.value.fields, aside: undefined })} onDrop={() => kept.set({ ...kept.value, aside: undefined })} />}
      <div class="grid">
        <Field label={T.sources.name} hint={T.sources.renameHint}>{(id) => <input id={id} value={name} onInput={(event) => set({ name: event.currentTarget.value })} />}</Field>
        <Field label={T.sources.keepDays} hint={T.sources.keepHint}>{(id) => <input id={id} type="number" min={0} max={36_500} value={days} onInput={(event) => set({ days: event.currentTarget.value })} />}</Field>
        <Field label={T.sources.tenant} hint={T.sources.tenantHint}>{(id) => <input id={id} value={tenant} onInput={(event) => set({ tenant: event.currentTarget.value })} />}</Field>
      </div>
      {message && <Alert message={message.text} kind={message.kind} />}
      <div class="actions">
        <button type="submit" class="primary" disabled={busy || isStale}>{T.common.save}</button>
        {isWritten && <span class="tag warning">{T.endpoints.unsaved}</span>}
        <span class="spacer" />
        <button type="button" class="danger" onClick={() => setRemoving(true)}>{T.sources.remove}</button>
      </div>
      {removing && (
        <Confirm title={T.sources.removeTitle(source.name)} verb={T.sources.remove} name={source.name} busy={busy} onConfirm={() => remove(false)} onClose={() => setRemoving(false)}>
          <p>{T.sources.removeText(count(source.rows ?? 0))}</p>
        </Confirm>
      )}
      {widening && (
        <Confirm title={T.sources.widensTitle} verb={T.sources.widens} busy={busy} onConfirm={widening.again} onClose={() => setWidening(null)}>
          <p>{T.sources.widensText}</p>
          <ul>{widening.told.map((line) => <li key={line}>{line}</li>)}</ul>
        </Confirm>
      )}
    </form>
  );
}
