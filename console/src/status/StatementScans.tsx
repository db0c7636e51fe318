// Where the scans of a slow query ran: on which workers with what they did, or why on the server.
import { type Schemas } from "../api/client";
import { bytes, count, duration } from "../result/format";
import { T } from "../text";

type Statement = Schemas["StatementWorkers"];
type Task = Schemas["WorkerTask"];

export function StatementScans({ statements }: { statements: Statement[] }) {
  if (!statements.some((one) => one.exchange || one.remote.length + one.local.length > 0)) return null;
  return (
    <details>
      <summary class="hint">{T.status.scans}</summary>
      {statements.map((one, at) => (
        <ul key={at} class="hint">
          {one.remote.map((scan, number) => (
            <li key={`remote ${number}`}>
              {T.status.onWorkers(scan.source)}
              <ul>{scan.tasks.map((task) => <li key={task.worker}><code>{task.worker}</code>: {told(task)}</li>)}</ul>
            </li>
          ))}
          {one.exchange && <li>{T.status.exchanged(one.exchange.stages, one.exchange.workers)}</li>}
          {one.not_exchanged && <li>{T.status.notExchanged(one.not_exchanged)}</li>}
          {(one.attempts ?? []).map((of, number) => <li key={`attempt ${number}`}>{T.status.moved(of.worker, of.failure)}</li>)}
          {one.fell_back && <li>{T.status.atLast}</li>}
          {one.local.map((stay, number) => <li key={`local ${number}`}>{T.status.onServer(stay.message)}</li>)}
        </ul>
      ))}
    </details>
  );
}

function told(task: Task): string {
  const { ran } = task;
  if (!ran) return T.status.notStarted;
  return T.status.did(duration(ran.milliseconds), count(task.segments), count(ran.rows_read), bytes(ran.bytes_read), count(ran.rows_sent));
}
