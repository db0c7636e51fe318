// The choice of a time range: relative to now, or between two times, in UTC or in the zone of the browser.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { absolute, boundsOf, parsed, RELATIVE, type RangeText } from "../query/timeRange";
import { inUtc, setUtc, time } from "../result/format";
import { T } from "../text";
import { Alert, Field, Menu, Toggle } from "../ui/parts";

function labelOf(text: RangeText): string {
  const relative = RELATIVE.find((one) => one.text === text);
  if (relative) return relative.label;
  const found = boundsOf(text);
  return found ? `${time(found.start).slice(0, 19)} – ${time(found.end).slice(0, 19)}` : T.time.all;
}

export function TimeRange({ value, onChange }: { value: RangeText; onChange: (value: RangeText) => void }) {
  return (
    <Menu title={labelOf(value)} label={`${T.time.label}: ${labelOf(value)}`}>
      {(close) => (
        <div class="time-range">
          <div role="group" aria-label={T.time.relative}>
            {[...RELATIVE, { text: "all", label: T.time.all }].map((one) => (
              <button key={one.text} type="button" class="menu-item" aria-pressed={value === one.text} onClick={() => (onChange(one.text), close())}>
                {one.label}
              </button>
            ))}
          </div>
          <Absolute value={value} onChange={(range) => (onChange(range), close())} />
        </div>
      )}
    </Menu>
  );
}

function Absolute({ value, onChange }: { value: RangeText; onChange: (value: RangeText) => void }) {
  const [range, setRange] = useState(() => boundsOf(value) ?? { start: Date.now() - 86_400_000, end: Date.now() });
  const [wrong, setWrong] = useState(false);
  const apply = (event: Event): void => {
    event.preventDefault();
    if (range.end > range.start) onChange(absolute(range));
    else setWrong(true);
  };
  return (
    <form onSubmit={apply}>
      <Moment label={T.time.from} value={range.start} onChange={(start) => setRange((range) => ({ ...range, start }))} />
      <Moment label={T.time.to} value={range.end} onChange={(end) => setRange((range) => ({ ...range, end }))} />
      {wrong && <Alert message={T.time.wrong} />}
      <Toggle label={T.time.utc} value={inUtc.value} onChange={setUtc} />
      <button type="submit" class="primary">{T.time.apply}</button>
    </form>
  );
}

const written = (ms: number): string => time(ms).slice(0, 19);

/** A time as text. Where another zone is chosen, by whichever button, the same time is written in that one. */
function Moment({ label, value, onChange }: { label: string; value: number; onChange: (value: number) => void }) {
  const [text, setText] = useState(() => written(value));
  const zone = useRef(inUtc.value);
  useLayoutEffect(() => {
    if (zone.current === inUtc.value) return;
    zone.current = inUtc.value;
    if (!Number.isNaN(value)) setText(written(value));
  }, [inUtc.value]);
  const write = (text: string): void => {
    setText(text);
    onChange(parsed(text, inUtc.value));
  };
  return <Field label={label}>{(id) => <input id={id} value={text} onInput={(event) => write(event.currentTarget.value)} />}</Field>;
}
