// The pages of endpoints: the list, and one endpoint with its tabs.
import type { Schemas } from "../api/client";
import { json } from "../api/client";
import { address, route } from "../route";
import { ago, count } from "../result/format";
import { T } from "../text";
import { Alert, Empty } from "../ui/parts";
import { useLoaded } from "../ui/load";
import { Endpoint } from "./Endpoint";

export type EndpointRecord = Schemas["Endpoint"];

export default function Endpoints() {
  const [, name, tab] = route.value.path;
  if (name !== undefined) return <Endpoint key={name} name={name === "new" && tab === "endpoint" ? null : name} tab={tab ?? "query"} />;
  return <List />;
}

function List() {
  const { value, error } = useLoaded((signal) => json<EndpointRecord[]>("/api/endpoints", { signal }), []);
  return (
    <main class="page" tabIndex={-1}>
      <div class="page-head">
        <h1>{T.nav.endpoints}</h1>
        <span class="spacer" />
        <a class="button primary" href={address(["endpoints", "new", "endpoint"])}>{T.endpoints.create}</a>
      </div>
      {error && <Alert message={error} />}
      {value?.length === 0 && <Empty title={T.endpoints.none}>{T.endpoints.noneHint}</Empty>}
      {value && value.length > 0 && (
        <div class="list-frame">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{T.endpoints.name}</th>
                <th scope="col">{T.endpoints.kind}</th>
                <th scope="col">{T.endpoints.settings}</th>
                <th scope="col" class="number">{T.endpoints.rowsAtMost}</th>
                <th scope="col">{T.endpoints.saved}</th>
              </tr>
            </thead>
            <tbody>
              {[...value].sort((a, b) => a.name.localeCompare(b.name)).map((one) => (
                <tr key={one.id}>
                  <td>
                    <a class="main" href={address(["endpoints", one.name])}>{one.name}</a>
                    <p class="hint">{one.description}</p>
                  </td>
                  <td class="nowrap">{T.endpoints.kinds[one.kind ?? "sql"]}</td>
                  <td>
                    {one.sandboxable && <span class="tag">{T.endpoints.tags.sandbox}</span>}
                    {(one.cache_duration_seconds ?? 0) > 0 && <span class="tag">{T.endpoints.tags.cache(one.cache_duration_seconds ?? 0)}</span>}
                    {one.redact_pii && <span class="tag">{T.endpoints.tags.redacted}</span>}
                    {(one.warnings?.length ?? 0) > 0 && <span class="tag warning" title={one.warnings?.join("\n")}>{T.endpoints.tags.warnings(one.warnings?.length ?? 0)}</span>}
                  </td>
                  <td class="number">{count(one.max_limit ?? 1000)}</td>
                  <td class="nowrap">
                    {T.endpoints.version(one.version)} · {one.updated_at ? ago(Date.parse(one.updated_at)) : ""}
                    <p class="hint">{one.author}</p>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </main>
  );
}
