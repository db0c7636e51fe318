// The alerts that fire, or whose last run failed, over all endpoints.
import { json, type Schemas } from "../api/client";
import { ago } from "../result/format";
import { address } from "../route";
import { T } from "../text";
import { useLoaded } from "../ui/load";
import { Alert } from "../ui/parts";

const EVERY = 10_000;

export function FiringAlerts() {
  const { value, error } = useLoaded((signal) => json<Schemas["AlertOfEndpoint"][]>("/api/alerts", { signal }), [], EVERY);
  const shown = value?.filter((one) => one.firing || one.last_run?.error || one.last_delivery?.given_up) ?? [];
  if (error) return <Alert message={error} />;
  if (value === null || value.length === 0) return null;
  return (
    <section class="stack" aria-label={T.status.alerts}>
      <h2>{T.status.alerts}</h2>
      {shown.length === 0 && <p class="hint">{T.status.noAlerts(value.length)}</p>}
      {shown.length > 0 && (
        <div class="list-frame">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{T.status.alert}</th>
                <th scope="col">{T.status.condition}</th>
                <th scope="col">{T.status.firing}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((one) => (
                <tr key={`${one.endpoint.id} ${one.name}`}>
                  <td>
                    <a class="main" href={address(["endpoints", one.endpoint.name, "alerts"])}>{one.name}</a>
                    <p class="hint">{one.endpoint.name}</p>
                  </td>
                  <td><code>{one.condition}</code></td>
                  <td>
                    {one.firing && <span class="tag warning">{one.since ? ago(Date.parse(one.since)) : T.status.firing}</span>}
                    {one.last_run?.error && <p class="hint">{one.last_run.error.message}</p>}
                    {one.last_delivery?.given_up && <p class="hint">{T.status.givenUp}</p>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
