// What one token reads.
import { json, segment, type Schemas } from "../api/client";
import { address } from "../route";
import { T } from "../text";
import { Alert, Page } from "../ui/parts";
import { useLoaded } from "../ui/load";
import { AccessTable } from "./AccessTable";

export function TokenAccess({ id }: { id: string }) {
  const path = `/api/access-tokens/${segment(id)}/access`;
  const { value, error } = useLoaded((signal) => json<Schemas["AccessOfToken"]>(path, { signal }), [path]);
  return (
    <Page title={value?.token.description || id} above={{ title: T.nav.tokens, href: address(["tokens"]) }} error={error}>
      {!value && !error && <p class="hint">{T.common.loading}</p>}
      {value && (
        <div class="stack">
          <p class="hint">{T.access.hint}</p>
          {value.private && <Alert kind="warning" message={T.access.private} />}
          <p>{value.writes.all ? T.access.writesAll : T.access.writes(value.writes.sources)}</p>
          <AccessTable endpoints={value.endpoints} />
        </div>
      )}
    </Page>
  );
}
