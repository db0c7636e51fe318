// Time series with uPlot: lines, bars, stacked bars, and a range that is chosen by dragging.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour } from "./colours";
import { count, inUtc, time } from "./format";

export interface Series {
  name: string;
  /** A colour of the style sheet. */
  variable: string;
  values: (number | null)[];
}

export interface PlotOptions {
  /** In milliseconds. */
  times: number[];
  series: Series[];
  kind: "line" | "bars" | "stacked";
  height: number;
  /** The width of a bar in milliseconds, where that is known. */
  width?: number;
  range?: { start: number; end: number };
  format?: (value: number) => string;
  onZoom?: (start: number, end: number) => void;
}

/** A time at the axis: the hour, and at the start of a day the day. */
function tick(ms: number, step: number): string {
  const text = time(ms);
  if (step >= 86_400 || text.slice(11, 19) === "00:00:00") return text.slice(5, 10);
  return text.slice(11, step < 60 ? 19 : 16);
}

/** Sums each series with those before it. */
function stacked(series: Series[]): (number | null)[][] {
  const sums = new Array<number>(series[0]?.values.length ?? 0).fill(0);
  return series.map((one) => one.values.map((value, at) => (sums[at] = (sums[at] ?? 0) + (value ?? 0))));
}

/** Draws into an element. The result is destroyed by the caller. */
export function plot(element: HTMLElement, options: PlotOptions): uPlot {
  const { times, series, kind, height, width, range, onZoom } = options;
  const format = options.format ?? count;
  const isStacked = kind === "stacked" && series.length > 1;
  const sums = isStacked ? stacked(series) : series.map((one) => one.values);
  // The tallest is drawn first, so that the parts of a bar lie before their sum.
  const order = isStacked ? series.map((_, at) => series.length - 1 - at) : series.map((_, at) => at);
  const axis: uPlot.Axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const seconds = times.map((time) => time / 1000);
  const bars = uPlot.paths.bars?.({ size: [0.86, 60], align: width === undefined ? 0 : 1 });
  const found = new uPlot(
    {
      width: Math.max(50, element.clientWidth),
      height,
      tzDate: (time) => (inUtc.value ? uPlot.tzDate(new Date(time * 1000), "Etc/UTC") : new Date(time * 1000)),
      legend: { show: false },
      padding: [8, 18, 0, 0],
      cursor: { drag: { x: onZoom !== undefined, y: false, setScale: false }, points: { show: kind === "line" }, y: false },
      scales: {
        x: { time: true, range: range ? () => [range.start / 1000, range.end / 1000] : (_self, min, max) => (min === max ? [min - 60, max + 60] : [min, max + (width ?? 0) / 1000]) },
        y: { range: (_self, min, max) => [Math.min(0, min), max > 0 ? max * 1.08 : 1] },
      },
      axes: [{ ...axis, grid: { show: false }, size: 24, space: 64, values: (_self, splits, _axis, _space, step) => splits.map((split) => tick(split * 1000, step)) }, { ...axis, size: 56, space: 34, values: (_self, splits) => splits.map((split) => format(split)) }],
      series: [
        {},
        ...order.map((at): uPlot.Series => {
          const one = series[at] as Series;
          const stroke = colour(one.variable);
          return kind === "line" ? { label: one.name, stroke, width: 1.5, points: { size: 4, show: times.length < 60 } } : { label: one.name, stroke, fill: stroke, width: 0, paths: bars, points: { show: false } };
        }),
      ],
      hooks: {
        setSelect: [
          (self) => {
            if (self.select.width < 4) return;
            const [start, end] = [self.posToVal(self.select.left, "x") * 1000, self.posToVal(self.select.left + self.select.width, "x") * 1000];
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            onZoom?.(start, end);
          },
        ],
      },
    },
    [seconds, ...order.map((at) => sums[at] as (number | null)[])] as uPlot.AlignedData,
    element,
  );
  return found;
}
