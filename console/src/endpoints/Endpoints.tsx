// The pages of endpoints: the list, and one endpoint with its tabs.
import type { Schemas } from "../api/client";
import { json } from "../api/client";
import type { EndpointRecord } from "../api/records";
import { address, route } from "../route";
import { ago, count, duration } from "../result/format";
import { T } from "../text";
import { Empty, Page } from "../ui/parts";
import { useLoaded } from "../ui/load";
import { draftName, unsaved } from "./draft";
import { draftOf } from "../drafts";
import { Endpoint } from "./Endpoint";


export default function Endpoints() {
  const [, name, tab, tabOfNew] = route.value.path;
  if (name === "new" && tab === "endpoint") return <Endpoint key="a new one" name={null} tab={tabOfNew ?? "query"} />;
  if (name !== undefined) return <Endpoint key={`the one ${name}`} name={name} tab={tab ?? "query"} />;
  return <List />;
}

type Statistics = Schemas["EndpointStatistics"];

function List() {
  const { value, error } = useLoaded((signal) => json<EndpointRecord[]>("/api/endpoints", { signal }), []);
  const statistics = useLoaded((signal) => json<Statistics[]>("/api/endpoint-statistics", { signal }), [], 5000);
  return (
    <Page title={T.nav.endpoints} error={error} head={
      <>
        <span class="spacer" />
        <a class="button primary" href={address(["endpoints", "new", "endpoint"])}>{T.endpoints.create}</a>
        {draftOf(draftName(undefined)) !== undefined && <span class="tag warning">{T.endpoints.unsaved}</span>}
      </>}>
      {value?.length === 0 && <Empty title={T.endpoints.none}>{T.endpoints.noneHint}</Empty>}
      {value && value.length > 0 && (
        <div class="list-frame">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{T.endpoints.name}</th>
                <th scope="col">{T.endpoints.kind}</th>
                <th scope="col">{T.endpoints.settings}</th>
                <th scope="col" class="number" title={T.endpoints.lastHour}>{T.endpoints.calls}</th>
                <th scope="col" class="number" title={T.endpoints.lastHour}>{T.endpoints.errors}</th>
                <th scope="col" class="number" title={T.endpoints.lastHour}>{T.endpoints.hits}</th>
                <th scope="col" class="number" title={T.endpoints.lastHour}>{T.endpoints.p95}</th>
                <th scope="col">{T.endpoints.saved}</th>
              </tr>
            </thead>
            <tbody>
              {[...value].sort((a, b) => a.name.localeCompare(b.name)).map((one) => (
                <tr key={one.id}>
                  <td>
                    <a class="main" href={address(["endpoints", one.name])}>{one.name}</a> {unsaved(one.id, one) && <span class="tag warning">{T.endpoints.unsaved}</span>}
                    <p class="hint">{one.description}</p>
                  </td>
                  <td class="nowrap">{T.endpoints.kinds[one.kind ?? "sql"]}</td>
                  <td>
                    {one.sandboxable && <span class="tag">{T.endpoints.tags.sandbox}</span>}
                    {(one.cache_duration_seconds ?? 0) > 0 && <span class="tag">{T.endpoints.tags.cache(one.cache_duration_seconds ?? 0)}</span>}
                    {one.redact_pii && <span class="tag">{T.endpoints.tags.redacted}</span>}
                    {(one.warnings?.length ?? 0) > 0 && <span class="tag warning" title={one.warnings?.join("\n")}>{T.endpoints.tags.warnings(one.warnings?.length ?? 0)}</span>}
                  </td>
                  <Calls found={statistics.value?.find((found) => found.id === one.id)} />
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
    </Page>
  );
}

/** The last hour of an endpoint. */
function Calls({ found }: { found: Statistics | undefined }) {
  if (!found) return <td colSpan={4} />;
  const { calls, refused, failed, cache_lookups, cache_hits, p95_milliseconds } = found;
  return (
    <>
      <td class="number">{count(calls)}</td>
      <td class="number" title={T.endpoints.errorsOf(refused, failed)}>{refused + failed > 0 ? <span class={failed > 0 ? "bad" : ""}>{count(refused + failed)}</span> : "–"}</td>
      <td class="number">{cache_lookups > 0 ? `${Math.round((100 * cache_hits) / cache_lookups)} %` : "–"}</td>
      <td class="number">{p95_milliseconds === null ? "–" : duration(p95_milliseconds)}</td>
    </>
  );
}
