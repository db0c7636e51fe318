// One endpoint: its tabs, and what they share.
import { useState } from "preact/hooks";
import { json, messageOf, segment } from "../api/client";
import { endpoints, reloadEndpoints } from "../api/document";
import { address, go } from "../route";
import { T } from "../text";
import { Alert, Dialog, Page, Tabs } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { Alerts } from "./Alerts";
import { Calls } from "./Calls";
import { Component } from "./Component";
import type { EndpointRecord } from "./Endpoints";
import { QueryForm } from "./QueryForm";
import { Try } from "./Try";
import { Versions } from "./Versions";

type Tab = "query" | "try" | "calls" | "alerts" | "versions";

export function Endpoint({ name, tab }: { name: string | null; tab: string }) {
  const { value, error, reload } = useLoaded(
    async (signal) => (name === null ? null : json<EndpointRecord>(`/api/endpoints/${segment(name)}`, { signal })),
    [name],
  );
  const [removing, setRemoving] = useState(false);
  const saved = (record: EndpointRecord): void => {
    if (record.name !== name) go(["endpoints", record.name]);
    else reload();
  };
  const tabs: { name: Tab; title: string }[] = (["query", "try", "calls", "alerts", "versions"] as const).map((one) => ({ name: one, title: T.endpoints.tabs[one] }));
  const chosen = (tabs.find((one) => one.name === tab)?.name ?? "query") as Tab;
  const info = endpoints.value?.find((one) => one.name === name);
  return (
    <Page title={name ?? T.endpoints.create} above={{ title: T.nav.endpoints, href: address(["endpoints"]) }} error={error} head={
      <>
        {value && <span class="tag">{T.endpoints.version(value.version)}</span>}
        {value?.kind === "wasm" && <span class="tag">{T.endpoints.kinds.wasm}</span>}
        <span class="spacer" />
        {value && <a class="button" href={address(["explore"], { endpoint: value.name })}>{T.endpoints.explore}</a>}
        {value && <button type="button" class="danger" onClick={() => setRemoving(true)}>{T.endpoints.remove}</button>}
      </>}>
      {value?.warnings?.map((warning) => <Alert key={warning} kind="warning" message={warning} />)}
      {name !== null && value && <Tabs label={T.endpoints.tabsLabel} tabs={tabs} chosen={chosen} onChoose={(next) => go(["endpoints", name, next])} />}
      {name === null && <QueryForm key="new" record={null} onSaved={saved} />}
      {value && chosen === "query" && <QueryForm key={value.version} record={value} onSaved={saved} />}
      {value?.component && chosen === "query" && <Component component={value.component} digest={value.digest} author={value.author} />}
      {value && chosen === "try" && <Try name={value.name} info={info} />}
      {value && chosen === "calls" && <Calls name={value.name} info={info} />}
      {value && chosen === "alerts" && <Alerts endpoint={value.name} info={info} onChanged={reload} />}
      {value && chosen === "versions" && <Versions record={value} onSaved={saved} />}
      {removing && value && <Remove name={value.name} onClose={() => setRemoving(false)} />}
    </Page>
  );
}

function Remove({ name, onClose }: { name: string; onClose: () => void }) {
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();
  const remove = (): void =>
    act(
      () => json(`/api/endpoints/${segment(name)}`, { method: "DELETE" }).then(reloadEndpoints),
      () => {
        onClose();
        go(["endpoints"]);
      },
      (failure) => setError(messageOf(failure)),
    );
  return (
    <Dialog title={T.endpoints.removeTitle(name)} onClose={onClose}>
      <p>{T.endpoints.removeText}</p>
      {error && <Alert message={error} />}
      <div class="actions">
        <button type="button" class="danger" disabled={busy} onClick={remove}>{T.endpoints.remove}</button>
        <button type="button" onClick={onClose}>{T.common.cancel}</button>
      </div>
    </Dialog>
  );
}
