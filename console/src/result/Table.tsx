// Rows in a table. Only those that can be seen are in the page, so that 10,000 are as smooth as ten.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";
import { severityOf, severityPath, valueAt } from "../query/severity";
import { T } from "../text";
import { styled } from "../ui/parts";
import { inUtc, text } from "./format";
import { numberOf, type Field, type Result } from "./types";

const ROW = 27;
/** How many rows decide how wide a column is. */
const SAMPLE = 60;
/** The widest column, in characters. */
const WIDEST = 110;
/** The most characters of a value that are in the page. */
const MOST_CHARACTERS = 600;
/** How many rows are kept as they are drawn. */
const MOST_DRAWN = 500;

function widths(result: Result): string {
  const last = result.columns.length - 1;
  return result.columns
    .map((column, at) => {
      let longest = column.name.length + 1;
      for (let row = 0; row < Math.min(result.rows, SAMPLE); row += 1) longest = Math.max(longest, text(result.cell(row, at), column.type, WIDEST).length);
      const wide = Math.min(longest, column.name === "event_message" ? WIDEST : 60);
      const size = `calc(${Math.max(5, wide)}ch + 22px)`;
      return at === last || column.name === "event_message" ? `minmax(${size}, 1fr)` : size;
    })
    .join(" ");
}

/** A row as it is drawn. */
interface Drawn {
  level: string;
  /** Null for NULL. */
  cells: (string | null)[];
}

/** Makes rows as they are drawn, once each: a value is read from the answer and written whenever it is asked for. */
function drawer(result: Result): (row: number) => Drawn {
  const severity = severityPath(result.columns);
  const severityAt = severity ? result.columns.findIndex((column) => column.name === severity.column) : -1;
  const known = new Map<number, Drawn>();
  return (row) => {
    const before = known.get(row);
    if (before) return before;
    const values = result.columns.map((_, at) => result.cell(row, at));
    const drawn = {
      level: severity && severityAt >= 0 ? severityOf(valueAt(values[severityAt] ?? null, severity.steps)) : "none",
      cells: result.columns.map((column, at) => (values[at] === null || values[at] === undefined ? null : text(values[at], column.type, MOST_CHARACTERS))),
    };
    if (known.size >= MOST_DRAWN) known.clear();
    known.set(row, drawn);
    return drawn;
  };
}

const isNumber = (column: Field): boolean => column.type.kind === "number";

/** `chosen` is the place of a row. `onScroll` is told whether the table is scrolled away from its first row. */
export function Table({ result, chosen, onChoose, onScroll }: { result: Result; chosen: number | null; onChoose: (row: number | null) => void; onScroll?: (away: boolean) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  // Where rows keep coming, the first ones decide how wide the columns are, so that they stand still.
  const template = useMemo(() => widths(result), [result.newest === undefined ? result : result.columns, Math.min(result.rows, SAMPLE)]);
  const drawn = useMemo(() => drawer(result), [result, inUtc.value]);
  const virtual = useRef<Virtualizer<HTMLDivElement, HTMLDivElement> | null>(null);
  const options = {
    count: result.rows,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    paddingStart: ROW,
    scrollPaddingStart: ROW,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(0),
  };
  virtual.current ??= new Virtualizer<HTMLDivElement, HTMLDivElement>(options);
  virtual.current.setOptions(options);
  useEffect(() => virtual.current?._didMount(), []);
  useEffect(() => virtual.current?._willUpdate());
  // With the new rows, not after they are painted: a key that is pressed in between would be undone.
  useLayoutEffect(() => {
    scroller.current?.scrollTo({ top: 0 });
  }, [result.newest === undefined ? result : null]);

  const key = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW) - 2);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -result.rows, End: result.rows }[event.key];
    if (event.key === "Escape") onChoose(null);
    if (step === undefined || result.rows === 0 || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = Math.min(result.rows - 1, Math.max(0, (chosen ?? -1) + step));
    virtual.current?.scrollToIndex(next);
    onChoose(next);
  };

  return (
    <div class="table" ref={scroller} role="grid" tabIndex={0} aria-label={T.result.rows} aria-rowcount={result.rows + 1} aria-colcount={result.columns.length} aria-activedescendant={chosen === null ? undefined : `row-${numberOf(result, chosen)}`} onKeyDown={key} onScroll={onScroll && ((event) => onScroll(event.currentTarget.scrollTop > ROW))} data-rows={result.rows}>
      <div class="table-space" role="presentation" ref={styled({ height: `${virtual.current.getTotalSize()}px`, "--columns": template })}>
        <div class="table-row table-head" role="row" aria-rowindex={1}>
          {result.columns.map((column, at) => (
            <div key={at} role="columnheader" class={isNumber(column) ? "number" : ""} title={`${column.name} ${column.type.name}`}>
              {column.name}
            </div>
          ))}
        </div>
        {virtual.current.getVirtualItems().map(({ index, start }) => (
          <div key={numberOf(result, index)} id={`row-${numberOf(result, index)}`} role="row" aria-rowindex={index + 2} aria-selected={index === chosen} class={`table-row level-${drawn(index).level}`} ref={styled({ transform: `translateY(${start}px)` })} onClick={() => onChoose(index)}>
            {result.columns.map((column, at) => {
              const value = drawn(index).cells[at] ?? null;
              return (
                <div key={at} role="gridcell" class={`${isNumber(column) ? "number" : ""} ${value === null ? "null" : ""} kind-${column.type.kind}`}>
                  {value ?? "NULL"}
                </div>
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}
