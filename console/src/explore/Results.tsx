// The lower half of Explore: how the rows lie in time, the rows as table, chart or JSON, and one row as a tree.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { filterLql, filterSql, type Path } from "../result/path";
import { count } from "../result/format";
import { variablesOf } from "../result/colours";
import { canChart, Chart } from "../result/Chart";
import { Detail } from "../result/Detail";
import { Json } from "../result/Json";
import Plot from "../result/Plot";
import type { PlotOptions } from "../result/plot";
import type { Histogram as Bars } from "../query/histogram";
import { summary } from "../result/summary";
import { Table } from "../result/Table";
import { numberOf, placeOf, type Result, type Type, type Value } from "../result/types";
import { severityOf } from "../result/severity";
import { T } from "../text";
import { Alert, Empty, Tabs } from "../ui/parts";
import * as live from "./live";
import { LiveFigures, LiveWarnings, NewRows, stateOfLive } from "./LiveBar";
import * as state from "./state";

const ORDER = ["info", "debug", "other", "warning", "error"];

function plotOf(bars: Bars, height: number): PlotOptions {
  // Errors stand on top, where they are seen.
  const series = [...bars.series].sort((a, b) => ORDER.indexOf(severityOf(a.name)) - ORDER.indexOf(severityOf(b.name)) || a.name.localeCompare(b.name)).slice(-12);
  const variables = variablesOf(series.map((one) => one.name));
  return {
    times: bars.times,
    width: bars.width,
    range: bars.range,
    kind: "stacked" as const,
    height,
    series: series.map((one, at) => ({ name: one.name === "" ? (series.length > 1 ? T.histogram.without : T.histogram.rows) : one.name, variable: variables[at] as string, values: one.counts })),
    onZoom: state.zoom,
  };
}

/** Whether the rows over time are the chart, because the result has no other. */
function isChart(): boolean {
  const result = state.result.value;
  return state.view.value === "chart" && result !== null && result.rows > 0 && !canChart(result) && (state.bars.value?.total ?? 0) > 0;
}

export function Histogram() {
  const bars = state.bars.value;
  const options = useMemo(() => bars && plotOf(bars, 108), [bars]);
  if (isChart()) return null;
  // The place is kept while rows are counted, so that the table does not jump.
  if (!options || !bars || bars.total === 0) return <div class={`histogram ${state.running.value && state.mode.value !== "saved" && !state.isLive.value ? "" : "none"}`} />;
  return (
    <div class="histogram" data-total={bars.total}>
      <Plot options={options} label={T.histogram.label(count(bars.total))} />
    </div>
  );
}

/** The rows over time in place of a chart of the result. */
function Counts({ bars }: { bars: Bars }) {
  const options = useMemo(() => plotOf(bars, 300), [bars]);
  return (
    <div class="chart">
      <Plot options={options} label={T.histogram.label(count(bars.total))} />
      <div class="actions">
        <button type="button" onClick={() => void state.countOverTime()}>{T.chart.count}</button>
        <span class="hint">{T.chart.countHint}</span>
      </div>
    </div>
  );
}

/** Whether LQL knows the column: what it makes of a path (`metadata_level`) is no column of the table. */
function isOfTable(path: Path): boolean {
  const columns = state.tables.value.get(state.namedTable.value);
  return columns === undefined || columns.some((column) => column.name === path.column);
}

function filter(path: Path, value: Value, type: Type, exclude: boolean): void {
  const write = state.mode.value === "lql" ? filterLql : filterSql;
  const changed = state.mode.value === "lql" && !isOfTable(path) ? null : write(state.text.value, path, value, type, exclude);
  if (changed === null) {
    state.failure.value = T.detail.noFilter;
    return;
  }
  state.text.value = changed;
  void state.start();
}

/** The row that is open. It stays so where it is held no more among the rows that came live. */
function useOpenRow(result: Result | null): { result: Result; row: number } | null {
  const before = useRef<Result | null>(null);
  const number = state.chosenRow.value;
  if (number === null) before.current = null;
  else if (result && placeOf(result, number) !== null) before.current = result;
  const row = before.current && placeOf(before.current, number);
  return before.current && row !== null ? { result: before.current, row } : null;
}

export function Results() {
  const result = state.result.value;
  const failure = state.failure.value;
  const view = state.view.value;
  const open = useOpenRow(result);
  useEffect(() => document.querySelector(".table")?.scrollTo({ top: 0 }), [live.streams.value]);
  const choose = (name: state.View): void => {
    state.view.value = name;
    live.scrolled(false);
    state.keepAddress();
  };
  const isBusy = state.running.value || live.phase.value === "connecting";
  const isLive = state.isLive.value || live.phase.value === "ended";
  const close = (): void => {
    state.chosenRow.value = null;
    document.querySelector<HTMLElement>(".table")?.focus();
  };
  return (
    <section class={`results ${isBusy ? "is-running" : ""}`} aria-label={T.explore.results} aria-busy={isBusy}>
      <div class="results-bar">
        <Tabs label={T.explore.views} chosen={view} onChoose={choose} tabs={[{ name: "table", title: T.explore.table }, { name: "chart", title: T.explore.chart }, { name: "json", title: T.explore.json }]} />
        <span class="status" role="status">
          {isLive ? stateOfLive() : state.running.value ? T.explore.running : result && !failure ? summary(result) : ""}
        </span>
        {isLive && <LiveFigures rows={result?.rows ?? 0} />}
      </div>
      {failure && <Alert message={failure} />}
      {isLive && <LiveWarnings />}
      {result && result.truncated && !failure && <Alert kind="warning" message={T.explore.truncated(count(result.rows))} />}
      {result?.notes.map((note) => <Alert key={note} kind="warning" message={note} />)}
      <div class="results-body">
        {!result && !failure && <Waiting />}
        {result && result.rows === 0 && !failure && (state.isLive.value ? <Empty title={T.live.noRows}>{T.live.noRowsHint}</Empty> : <Empty title={T.explore.noRows}>{T.explore.noRowsHint}</Empty>)}
        {result && result.rows > 0 && view === "table" && (
          <>
            <div class="table-frame">
              <NewRows />
              <Table result={result} chosen={placeOf(result, state.chosenRow.value)} onChoose={(row) => (state.chosenRow.value = row === null ? null : numberOf(result, row))} onScroll={live.scrolled} />
            </div>
            {open && <Detail result={open.result} row={open.row} onClose={close} onMove={(row) => (state.chosenRow.value = numberOf(open.result, row))} actions={state.mode.value === "saved" ? {} : { filter }} />}
          </>
        )}
        {isChart() && state.bars.value && <Counts bars={state.bars.value} />}
        {result && result.rows > 0 && view === "chart" && !isChart() && <Chart result={result} onCount={state.isLive.value || state.mode.value === "saved" ? undefined : () => void state.countOverTime()} />}
        {result && result.rows > 0 && view === "json" && <Json result={result} />}
      </div>
    </section>
  );
}

function Waiting() {
  // What is wrong with the address stands above.
  if (!state.endpoint.value) return null;
  if (state.missing.value.length > 0) return <Empty title={T.explore.missing(state.missing.value)}>{T.explore.missingHint}</Empty>;
  return state.running.value ? <Empty title={T.explore.running} /> : <Empty title={T.explore.ready}>{T.explore.readyHint}</Empty>;
}
