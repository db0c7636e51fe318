// The page of access tokens: the list, and the ways to make and to revoke one.
import { useState } from "preact/hooks";
import { json, messageOf } from "../api/client";
import type { TokenRecord, MadeToken } from "../api/records";
import { access } from "../api/session";
import { TokenAccess } from "../access/TokenAccess";
import { ago } from "../result/format";
import { address, route } from "../route";
import { T } from "../text";
import { Alert, Confirm, CopyButton, Dialog, Empty, Page } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import { NewToken } from "./NewToken";
import { inWords } from "./words";


export default function Tokens() {
  const id = route.value.path[1];
  return id === undefined ? <List /> : <TokenAccess key={id} id={id} />;
}

function List() {
  const { value, error, reload } = useLoaded((signal) => json<TokenRecord[]>("/api/access-tokens", { signal }), []);
  const [creating, setCreating] = useState(false);
  const [made, setMade] = useState<MadeToken | null>(null);
  const [revoking, setRevoking] = useState<TokenRecord | null>(null);
  return (
    <Page title={T.nav.tokens} error={error} head={
      <>
        <span class="spacer" />
        <button type="button" class="primary" onClick={() => setCreating(true)}>{T.tokens.create}</button>
      </>}>
      <p class="hint">{T.tokens.hint}</p>
      {value?.length === 0 && <Empty title={T.tokens.none}>{T.tokens.noneHint}</Empty>}
      {value && value.length > 0 && (
        <div class="list-frame">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{T.tokens.description}</th>
                <th scope="col">{T.tokens.may}</th>
                <th scope="col">{T.tokens.made}</th>
                <th scope="col">{T.tokens.used}</th>
                <th scope="col">{T.tokens.expires}</th>
                <th scope="col"><span class="hidden">{T.tokens.revoke}</span></th>
              </tr>
            </thead>
            <tbody>
              {value.map((one) => (
                <tr key={one.id}>
                  <td>
                    <span class="main">{one.description || T.session.anonymous}</span>
                    <p class="hint"><code>{one.id}</code></p>
                  </td>
                  <td>
                    <ul class="may">{inWords(one.scopes, one.pinned ?? {}).map((line) => <li key={line}>{line}</li>)}</ul>
                  </td>
                  <td class="nowrap">{one.inserted_at ? ago(Date.parse(one.inserted_at)) : ""}</td>
                  <td class="nowrap">{one.last_used_at ? ago(Date.parse(one.last_used_at)) : T.common.never}</td>
                  <td class="nowrap">{one.expires_at ? one.expires_at.slice(0, 10) : T.common.never}</td>
                  <td class="nowrap">
                    <a class="button small" href={address(["tokens", one.id])} aria-label={T.access.showOf(one.description || one.id)}>{T.access.show}</a>{" "}
                    <button type="button" class="danger small" onClick={() => setRevoking(one)} aria-label={T.tokens.revokeOf(one.description || one.id)}>{T.tokens.revoke}</button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating && <NewToken onClose={() => setCreating(false)} onMade={(token) => { setCreating(false); setMade(token); reload(); }} />}
      {made && (
        <Dialog title={T.tokens.madeTitle} onClose={() => setMade(null)}>
          <p>{T.tokens.once}</p>
          <p class="secret" data-secret>{made.token}</p>
          {made.warnings?.map((warning) => <Alert key={warning} kind="warning" message={warning} />)}
          <div class="actions">
            <CopyButton text={made.token} label={T.tokens.copy} />
            <button type="button" onClick={() => setMade(null)}>{T.common.close}</button>
          </div>
        </Dialog>
      )}
      {revoking && <Revoke token={revoking} onClose={() => setRevoking(null)} onDone={() => { setRevoking(null); reload(); }} />}
    </Page>
  );
}

function Revoke({ token, onClose, onDone }: { token: TokenRecord; onClose: () => void; onDone: () => void }) {
  const [error, setError] = useState<string | null>(null);
  const { busy, act } = useAction();
  const revoke = (): void => act(() => json(`/api/access-tokens/${token.id}`, { method: "DELETE" }), onDone, (failure) => setError(messageOf(failure)));
  return (
    <Confirm title={T.tokens.revokeTitle(token.description || token.id)} verb={T.tokens.revoke} busy={busy} error={error} onConfirm={revoke} onClose={onClose}>
      <p>{T.tokens.revokeText}</p>
      {token.id === access.value?.id && <Alert kind="warning" message={T.tokens.own} />}
    </Confirm>
  );
}
