// The slowest queries of the last hour, with what each cost.
import { json, type Schemas } from "../api/client";
import { ago, bytes, count, duration } from "../result/format";
import { address } from "../route";
import { T } from "../text";
import { useLoaded } from "../ui/load";
import { Alert, Empty } from "../ui/parts";
import { StatementScans } from "./StatementScans";

type SlowQuery = Schemas["SlowQuery"];

const EVERY = 10_000;

export function SlowQueries() {
  const { value, error } = useLoaded((signal) => json<SlowQuery[]>("/api/slow-queries", { signal }), [], EVERY);
  return (
    <section class="stack" aria-label={T.status.slow}>
      <h2>{T.status.slow}</h2>
      {error && <Alert message={error} />}
      {value?.length === 0 && <Empty title={T.status.noSlow} />}
      {value && value.length > 0 && (
        <div class="list-frame tall" tabIndex={0} role="group" aria-label={T.status.slow}>
          <table class="list">
            <thead>
              <tr>
                <th scope="col">{T.status.query}</th>
                <th scope="col" class="number">{T.status.time}</th>
                <th scope="col" class="number">{T.status.rowsRead}</th>
                <th scope="col" class="number">{T.status.bytesRead}</th>
                <th scope="col" class="number">{T.status.memory}</th>
                <th scope="col">{T.status.arrived}</th>
              </tr>
            </thead>
            <tbody>
              {value.map((one) => (
                <tr key={`${one.arrived_at} ${one.endpoint.id} ${one.milliseconds}`}>
                  <td>
                    <a class="main" href={linkOf(one)}>{one.endpoint.name}</a>
                    {one.status >= 400 && <span class="tag warning">{one.status}</span>}
                    <p class="hint"><code class="query-text">{one.text ? `${one.text}${one.text_is_cut ? " …" : ""}` : T.status.saved}</code></p>
                    <StatementScans statements={one.workers} />
                  </td>
                  <td class="number nowrap">{duration(one.milliseconds)}</td>
                  <td class="number nowrap">{count(one.rows_read)}</td>
                  <td class="number nowrap">{bytes(one.bytes_read)}</td>
                  <td class="number nowrap">{bytes(one.memory)}</td>
                  <td class="nowrap">{one.arrived_at ? ago(Date.parse(one.arrived_at)) : ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The query in Explore; where its text is not known whole, its endpoint. */
function linkOf(one: SlowQuery): string {
  if (!one.text || !one.language || one.text_is_cut) return address(["endpoints", one.endpoint.name]);
  return address(["explore"], { endpoint: one.endpoint.name, mode: one.language, q: one.text });
}
