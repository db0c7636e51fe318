// Who reads what, as a table: a line for each source that a part of an endpoint reads, those that are refused first.
import type { Schemas } from "../api/client";
import { address } from "../route";
import { T } from "../text";

export type Reading = Schemas["AccessOfEndpoint"];

/** The most lines that are put into the page. */
const MOST_LINES = 2000;

export interface Line {
  endpoint: string;
  table: string;
  source: string | undefined;
  rows: string;
  /** The columns, or why nothing is read. */
  what: string;
  refused: boolean;
}

/** The lines of a report, refusals first; otherwise in the order of the report. */
export function linesOf(endpoints: Reading[]): Line[] {
  const lines = endpoints.flatMap((one): Line[] => {
    if (one.refused) return [{ endpoint: one.endpoint, table: T.access.whole, source: undefined, rows: "REFUSED", what: one.refused, refused: true }];
    return one.tables.flatMap((table): Line[] => {
      if (table.failed) return [{ endpoint: one.endpoint, table: table.table, source: undefined, rows: "FAILS", what: table.failed, refused: true }];
      return table.sources.map((source) => ({
        endpoint: one.endpoint,
        table: table.table,
        source: source.source,
        rows: source.rows,
        what: source.reason ?? (source.columns?.length ? source.columns.join(", ") : T.access.counted),
        refused: source.access === "refused",
      }));
    });
  });
  return [...lines.filter((line) => line.refused), ...lines.filter((line) => !line.refused)];
}

export function AccessTable({ endpoints }: { endpoints: Reading[] }) {
  const lines = linesOf(endpoints);
  if (lines.length === 0) return <p class="hint">{T.access.nothing}</p>;
  return (
    <>
      <div class="list-frame">
        <table class="list" data-access>
          <thead>
            <tr>
              <th scope="col">{T.access.endpoint}</th>
              <th scope="col">{T.access.table}</th>
              <th scope="col">{T.access.source}</th>
              <th scope="col">{T.access.rows}</th>
              <th scope="col">{T.access.columns}</th>
            </tr>
          </thead>
          <tbody>
            {lines.slice(0, MOST_LINES).map((line, at) => (
              <tr key={at}>
                <td><a href={address(["endpoints", line.endpoint])}>{line.endpoint}</a></td>
                <td><code>{line.table}</code></td>
                <td>{line.source && <a href={address(["sources", line.source])}>{line.source}</a>}</td>
                <td class="nowrap">{line.refused ? <span class="tag warning">{line.rows}</span> : <code>{line.rows}</code>}</td>
                <td>{line.what}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {lines.length > MOST_LINES && <p class="hint">{T.access.more(lines.length - MOST_LINES)}</p>}
    </>
  );
}
