// The workers of a server that has some: whether each is used, and how the parts of statements ended that it was given.
import { count } from "../result/format";
import { T } from "../text";
import { type Sample, sum } from "./metrics";

/** A worker as /ready tells of it; which it is, and why it is not used, to private tokens only. */
export interface Worker {
  name?: string;
  used: boolean;
  reason?: string | null;
}

const TASKS = "tidegate_cluster_tasks_total";
/** How a part ends that did what was wanted. */
const GOOD = ["done", "left"];
/** How a part ends through the worker's fault: it is run elsewhere. */
const OF_WORKER = ["gone", "busy", "nonsense", "damaged"];

export function Workers({ workers, samples }: { workers: Worker[]; samples: Sample[] }) {
  const ended = (worker: string | undefined, outcomes: string[]): string => count(sum(samples, TASKS, (labels) => labels.worker === worker && outcomes.includes(labels.outcome ?? "")));
  return (
    <section class="stack" aria-label={T.status.workers}>
      <h2>{T.status.workers}</h2>
      <div class="list-frame">
        <table class="list">
          <thead>
            <tr>
              <th scope="col">{T.status.worker}</th>
              <th scope="col">{T.status.use}</th>
              <th scope="col" class="number">{T.status.tasksDone}</th>
              <th scope="col" class="number">{T.status.tasksFailed}</th>
              <th scope="col" class="number">{T.status.tasksMoved}</th>
            </tr>
          </thead>
          <tbody>
            {workers.map((one, place) => (
              <tr key={one.name ?? place}>
                <td class="nowrap"><code>{one.name ?? T.common.none}</code></td>
                <td>
                  <span class={`tag ${one.used ? "" : "warning"}`}>{one.used ? T.status.used : T.status.unused}</span>
                  {one.reason && <p class="hint">{one.reason}</p>}
                </td>
                <td class="number nowrap">{ended(one.name, GOOD)}</td>
                <td class="number nowrap">{ended(one.name, ["failed"])}</td>
                <td class="number nowrap">{ended(one.name, OF_WORKER)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
