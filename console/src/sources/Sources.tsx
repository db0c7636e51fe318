// The pages of sources: the list, and one source with its fields and the ways to send to it.
import { useState } from "preact/hooks";
import { json, messageOf } from "../api/client";
import type { SourceRecord } from "../api/records";
import { useDraft } from "../drafts";
import { address, go, route } from "../route";
import { ago, bytes, count } from "../result/format";
import { T } from "../text";
import { Alert, Dialog, Empty, Field, Page } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { Source } from "./Source";
import { retention } from "./retention";


export default function Sources() {
  const name = route.value.path[1];
  return name === undefined ? <List /> : <Source key={name} name={name} />;
}

/** All sources with the amount of their data, a few requests at a time. */
async function readAll(signal: AbortSignal): Promise<SourceRecord[]> {
  const all = await json<SourceRecord[]>("/api/sources", { signal });
  const found: SourceRecord[] = [];
  for (let at = 0; at < all.length; at += 8) {
    found.push(...(await Promise.all(all.slice(at, at + 8).map((one) => json<SourceRecord>(`/api/sources/${one.id}`, { signal }).catch(() => one)))));
  }
  return found.sort((a, b) => a.name.localeCompare(b.name));
}

function List() {
  const { value, error } = useLoaded(readAll, [], 10_000);
  const [creating, setCreating] = useState(false);
  return (
    <Page title={T.nav.sources} error={error} head={
      <>
        <span class="spacer" />
        <button type="button" class="primary" onClick={() => setCreating(true)}>{T.sources.create}</button>
      </>}>
      {value?.length === 0 && <Empty title={T.sources.none}>{T.sources.noneHint}</Empty>}
      {value && value.length > 0 && (
        <div class="list-frame">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{T.sources.name}</th>
                <th scope="col" class="number">{T.sources.rows}</th>
                <th scope="col" class="number">{T.sources.size}</th>
                <th scope="col">{T.sources.newest}</th>
                <th scope="col" class="number">{T.sources.fields}</th>
                <th scope="col">{T.sources.retention}</th>
              </tr>
            </thead>
            <tbody>
              {value.map((one) => (
                <tr key={one.id}>
                  <td><a class="main" href={address(["sources", one.name])}>{one.name}</a></td>
                  <td class="number">{count(one.rows ?? 0)}</td>
                  <td class="number">{bytes(one.bytes ?? 0)}</td>
                  <td class="nowrap">{one.newest ? ago(Date.parse(one.newest)) : T.common.never}</td>
                  <td class="number">
                    {count(one.fields ?? 0)}
                    {one.overflows && <span class="tag warning">{T.sources.full}</span>}
                  </td>
                  <td class="nowrap">{retention(one)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating && <Create onClose={() => setCreating(false)} />}
    </Page>
  );
}

function Create({ onClose }: { onClose: () => void }) {
  const kept = useDraft("new source", () => "");
  const [name, setName] = [kept.value, kept.set];
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();
  const create = (event: Event): void => {
    event.preventDefault();
    act(() => json<SourceRecord>("/api/sources", { method: "POST", body: { name } }), (source) => (kept.drop(), go(["sources", source.name])), (failure) => setError(messageOf(failure)));
  };
  return (
    <Dialog title={T.sources.create} onClose={onClose}>
      <form class="stack" onSubmit={create}>
        <Field label={T.sources.name} hint={T.sources.nameHint}>{(id) => <input id={id} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        {error && <Alert message={error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={busy || name === ""}>{T.sources.create}</button>
          <button type="button" onClick={() => (kept.drop(), onClose())}>{T.common.cancel}</button>
        </div>
      </form>
    </Dialog>
  );
}
