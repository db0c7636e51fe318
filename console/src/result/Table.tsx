// Rows in a table. Only those that can be seen are in the page, so that 10,000 are as smooth as ten.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { severityOf, severityPath, valueAt } from "./severity";
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

/** So many columns are all in the page. Of more, only those that can be seen, and some beside them. */
const MOST_COLUMNS = 40;
const BESIDE = 4;
/** What a column has beside its text, in pixels. */
const PADDING = 22;

/** How wide each column is, in characters. */
function widths(result: Result): number[] {
  return result.columns.map((column, at) => {
    let longest = column.name.length + 1;
    for (let row = 0; row < Math.min(result.rows, SAMPLE); row += 1) longest = Math.max(longest, text(result.cell(row, at), column.type, WIDEST).length);
    return Math.max(5, Math.min(longest, column.name === "event_message" ? WIDEST : 60));
  });
}

function templateOf(result: Result, wide: number[]): string {
  const last = result.columns.length - 1;
  const size = (at: number): string => `calc(${wide[at] ?? 5}ch + ${PADDING}px)`;
  const grows = (at: number): boolean => at === last || result.columns[at]?.name === "event_message";
  return result.columns.map((_, at) => (grows(at) ? `minmax(${size(at)}, 1fr)` : size(at))).join(" ");
}

/** Where each column begins, in pixels, and where the last one ends. */
function placesOf(wide: number[], character: number): number[] {
  const places = [0];
  for (const one of wide) places.push((places.at(-1) ?? 0) + Math.ceil(one * character) + PADDING);
  return places;
}

/** The columns that can be seen of a table that is scrolled so far, from and to. */
function seen(places: number[], left: number, width: number): [number, number] {
  const columns = places.length - 1;
  const from = places.findIndex((_, at) => (places[at + 1] ?? Infinity) > left);
  const to = places.findIndex((place) => place > left + width);
  return [Math.max(0, from - BESIDE), Math.min(columns, (to < 0 ? columns : to) + BESIDE)];
}

/** How wide a character of the table is, in pixels. */
function characterOf(table: HTMLElement): number {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return 7;
  context.font = getComputedStyle(table).font;
  return context.measureText("0").width || 7;
}

/** A text in one line, as a row of the table has it. */
const inOneLine = (text: string): string => text.replace(/\r\n|[\n\r\v\f\u0085\u2028\u2029]/g, " ↵ ");

/** A row as it is drawn. */
interface Drawn {
  level: string;
  /** The text in a column; null for NULL. */
  cell: (at: number) => string | null;
}

/** Makes rows as they are drawn, once each: a value is read from the answer and written whenever it is asked for. */
function drawer(result: Result): (row: number) => Drawn {
  const severity = severityPath(result.columns);
  const severityAt = severity ? result.columns.findIndex((column) => column.name === severity.column) : -1;
  const known = new Map<number, Drawn>();
  return (row) => {
    const before = known.get(row);
    if (before) return before;
    const written: (string | null)[] = [];
    const write = (at: number): string | null => {
      const [value, column] = [result.cell(row, at), result.columns[at]];
      return value === null || value === undefined || !column ? null : inOneLine(text(value, column.type, MOST_CHARACTERS));
    };
    const drawn = {
      level: severity && severityAt >= 0 ? severityOf(valueAt(result.cell(row, severityAt) ?? null, severity.steps)) : "none",
      cell: (at: number) => (at in written ? (written[at] ?? null) : (written[at] = write(at))),
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
  const wide = useMemo(() => widths(result), [result.newest === undefined ? result : result.columns, Math.min(result.rows, SAMPLE)]);
  const isWide = result.columns.length > MOST_COLUMNS;
  const template = useMemo(() => (isWide ? "" : templateOf(result, wide)), [wide, isWide]);
  const [character, setCharacter] = useState(7);
  const [across, setAcross] = useState({ left: 0, width: 2000 });
  useLayoutEffect(() => {
    const table = scroller.current;
    if (!table || !isWide) return;
    setCharacter(characterOf(table));
    const look = (): void => setAcross((before) => (before.left === table.scrollLeft && before.width === table.clientWidth ? before : { left: table.scrollLeft, width: table.clientWidth }));
    look();
    table.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(table);
    return () => {
      table.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [isWide]);
  const places = useMemo(() => placesOf(wide, character), [wide, character]);
  const [from, to] = isWide ? seen(places, across.left, across.width) : [0, result.columns.length];
  const columns = result.columns.slice(from, to).map((column, index) => ({ column, at: from + index }));
  // A grid of hundreds of columns in each row takes longer to lay out than to draw.
  const place = (at: number) => (isWide ? styled({ left: `${places[at] ?? 0}px`, width: `${(places[at + 1] ?? 0) - (places[at] ?? 0)}px` }) : undefined);
  const row = isWide ? "table-row is-wide" : "table-row";
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
      <div class="table-space" role="presentation" ref={styled({ height: `${virtual.current.getTotalSize()}px`, "--columns": template, "min-width": isWide ? `${places.at(-1) ?? 0}px` : "max-content" })}>
        <div class={`${row} table-head`} role="row" aria-rowindex={1}>
          {columns.map(({ column, at }) => (
            <div key={isWide ? `wide ${at}` : at} ref={place(at)} role="columnheader" aria-colindex={at + 1} class={isNumber(column) ? "number" : ""} title={`${column.name} ${column.type.name}`}>
              {column.name}
            </div>
          ))}
        </div>
        {virtual.current.getVirtualItems().map(({ index, start }) => (
          <div key={numberOf(result, index)} id={`row-${numberOf(result, index)}`} role="row" aria-rowindex={index + 2} aria-selected={index === chosen} class={`${row} level-${drawn(index).level}`} ref={styled({ transform: `translateY(${start}px)` })} onClick={() => onChoose(index)}>
            {columns.map(({ column, at }) => {
              const value = drawn(index).cell(at);
              return (
                <div key={isWide ? `wide ${at}` : at} ref={place(at)} role="gridcell" aria-colindex={at + 1} class={`${isNumber(column) ? "number" : ""} ${value === null ? "null" : ""} kind-${column.type.kind}`}>
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
