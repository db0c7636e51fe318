// One endpoint: its tabs, and what they share.
import { useEffect, useRef, useState } from "preact/hooks";
import { json, messageOf, onlyIf, segment, tagged } from "../api/client";
import { endpoints, reloadEndpoints } from "../api/document";
import { dropDraft } from "../drafts";
import { address, go } from "../route";
import { T } from "../text";
import { Alert, Confirm, Page, Tabs } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { Alerts } from "./Alerts";
import { Calls } from "./Calls";
import { Component } from "./Component";
import { draftName, type Read, unsaved } from "./draft";
import type { EndpointRecord } from "../api/records";
import { QueryForm } from "./QueryForm";
import { Try } from "./Try";
import { Versions } from "./Versions";

const TABS = ["query", "try", "calls", "alerts", "versions"] as const;

export function Endpoint({ name, tab }: { name: string | null; tab: string }) {
  const { value, error, reload } = useLoaded(
    async (signal): Promise<Read | null> => {
      if (name === null) return null;
      const { value: record, tag } = await tagged<EndpointRecord>(`/api/endpoints/${segment(name)}`, { signal });
      return { record, tag };
    },
    [name],
  );
  /** What was saved here last, which the next reading may not have yet. */
  const [last, setLast] = useState<Read | null>(null);
  const [removing, setRemoving] = useState(false);
  const read = last && value && last.record.id === value.record.id && last.record.version > value.record.version ? last : value;
  const record = read?.record;
  const isThere = useRef(true);
  useEffect(() => () => {
    isThere.current = false;
  }, []);
  const saved = (done: Read): void => {
    if (!isThere.current) return;
    if (done.record.name !== name) return go(["endpoints", done.record.name]);
    setLast(done);
    reload();
  };
  const tabs = TABS.map((one) => ({ name: one, title: T.endpoints.tabs[one] }));
  const chosen = tabs.find((one) => one.name === tab)?.name ?? "query";
  const info = endpoints.value?.find((one) => one.name === name);
  const draft = name === null || record ? unsaved(record?.id, record ?? null) : null;
  return (
    <Page title={name ?? T.endpoints.create} above={{ title: T.nav.endpoints, href: address(["endpoints"]) }} error={error} head={
      <>
        {record && <span class="tag">{T.endpoints.version(record.version)}</span>}
        {record?.kind === "wasm" && <span class="tag">{T.endpoints.kinds.wasm}</span>}
        {draft && <span class="tag warning">{T.endpoints.unsaved}</span>}
        <span class="spacer" />
        {name === null && (chosen === "query" ? <a class="button" href={address(["endpoints", "new", "endpoint", "try"])}>{T.endpoints.tryDraft}</a> : <a class="button" href={address(["endpoints", "new", "endpoint"])}>{T.endpoints.backToQuery}</a>)}
        {record && <a class="button" href={address(["explore"], { endpoint: record.name })}>{T.endpoints.explore}</a>}
        {record && <button type="button" class="danger" onClick={() => setRemoving(true)}>{T.endpoints.remove}</button>}
      </>}>
      {record?.warnings?.map((warning) => <Alert key={warning} kind="warning" message={warning} />)}
      {name !== null && record && <Tabs label={T.endpoints.tabsLabel} tabs={tabs} chosen={chosen} onChoose={(next) => go(["endpoints", name, next])} />}
      {(name === null || read) && chosen === "query" && <QueryForm key={`${last?.tag}`} read={read} onSaved={saved} onNewer={reload} />}
      {record?.component && chosen === "query" && <Component component={record.component} digest={record.digest} author={record.author} />}
      {(name === null || record) && chosen === "try" && <Try key={draft ? "draft" : "saved"} name={record?.name ?? (draft?.fields.name || "unnamed")} isNew={name === null} info={info} draft={draft?.fields ?? null} />}
      {record && chosen === "calls" && <Calls name={record.name} info={info} />}
      {record && chosen === "alerts" && <Alerts endpoint={record.name} info={info} onChanged={reload} />}
      {read && chosen === "versions" && <Versions read={read} onSaved={saved} onNewer={reload} />}
      {removing && read && <Remove read={read} onClose={() => setRemoving(false)} />}
    </Page>
  );
}

function Remove({ read: { record, tag }, onClose }: { read: Read; onClose: () => void }) {
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();
  const remove = (): void =>
    act(
      () => json(`/api/endpoints/${segment(record.name)}`, { method: "DELETE", headers: onlyIf(tag) }).then(reloadEndpoints),
      () => {
        dropDraft(draftName(record.id));
        onClose();
        go(["endpoints"]);
      },
      (failure) => setError(messageOf(failure)),
    );
  return (
    <Confirm title={T.endpoints.removeTitle(record.name)} verb={T.endpoints.remove} name={record.name} busy={busy} error={error} onConfirm={remove} onClose={onClose}>
      <p>{T.endpoints.removeText}</p>
    </Confirm>
  );
}
