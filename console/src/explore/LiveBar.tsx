// What is said of live mode: its state, its figures, what is missing, and the way back to the newest rows.
import { count } from "../result/format";
import { MOST_ROWS } from "../result/live";
import { T } from "../text";
import { Icon } from "../ui/Icon";
import { Alert } from "../ui/parts";
import * as live from "./live";

/** The state in words. Only this is read out by screen readers, not each row. */
export function stateOfLive(): string {
  const phase = live.phase.value;
  if (phase === "live" && live.isPaused.value) return T.live.paused;
  return phase === "live" && live.isAway.value ? T.live.away : T.live.phases[phase];
}

export function LiveFigures({ rows }: { rows: number }) {
  const rate = live.rate.value;
  const parts = [T.live.rate(count(rate >= 10 ? Math.round(rate) : Number(rate.toFixed(1)))), T.explore.rows(rows)];
  if (live.dropped.value > 0) parts.push(T.live.dropped(count(live.dropped.value)));
  return (
    <>
      <span class="status live-figures" title={live.dropped.value > 0 ? T.live.bound(count(MOST_ROWS)) : undefined}>
        {parts.join(" · ")}
        {live.missed.value > 0 && <b class="live-missed"> · {T.live.missed(count(live.missed.value))}</b>}
      </span>
      {live.isOn.value && (
        <button type="button" class="small" aria-pressed={live.isPaused.value} title={T.live.pauseKeys} onClick={() => live.pause(!live.isPaused.value)}>
          {T.live.pause}
        </button>
      )}
    </>
  );
}

export function LiveWarnings() {
  return (
    <>
      {live.gap.value !== null && <Alert kind="warning" message={T.live.gap(live.gap.value)} />}
      {live.because.value !== null && <Alert kind="warning" message={T.live.because(live.because.value)} />}
    </>
  );
}

/** Where the table stands still: how many rows have come since, and the way to them. */
export function NewRows() {
  if (!live.isStill.value || live.pending.value === 0) return null;
  const show = (): void => {
    const table = document.querySelector<HTMLElement>(".table");
    table?.scrollTo({ top: 0 });
    table?.focus();
    live.goOn();
  };
  return <button type="button" class="primary small new-rows" onClick={show}><Icon name="up" /> {T.live.newRows(live.pending.value)}</button>;
}
