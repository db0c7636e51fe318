// The choice of a time range: relative to now, or between two times, in UTC or in the zone of the browser.
import { useState } from "preact/hooks";
import { absolute, boundsOf, RELATIVE, type RangeText } from "../query/timeRange";
import { inUtc, setUtc, time } from "../result/format";
import { T } from "../text";
import { Alert, Field, Menu, Toggle } from "../ui/parts";

function labelOf(text: RangeText): string {
  const relative = RELATIVE.find((one) => one.text === text);
  if (relative) return relative.label;
  const found = boundsOf(text);
  return found ? `${time(found.start).slice(0, 19)} – ${time(found.end).slice(0, 19)}` : T.time.all;
}

/** A time as the input writes it, in the chosen zone. */
function parsed(text: string): number {
  const plain = text.trim().replace(" ", "T");
  return Date.parse(inUtc.value && /^\d{4}-\d\d-\d\dT[\d:.]+$/.test(plain) ? `${plain}Z` : plain);
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
  const now = boundsOf(value) ?? { start: Date.now() - 86_400_000, end: Date.now() };
  const [start, setStart] = useState(() => time(now.start).slice(0, 19));
  const [end, setEnd] = useState(() => time(now.end).slice(0, 19));
  const [wrong, setWrong] = useState(false);
  const apply = (event: Event): void => {
    event.preventDefault();
    const range = { start: parsed(start), end: parsed(end) };
    if (range.end > range.start) onChange(absolute(range));
    else setWrong(true);
  };
  return (
    <form onSubmit={apply}>
      <Field label={T.time.from}>{(id) => <input id={id} value={start} onInput={(event) => setStart(event.currentTarget.value)} />}</Field>
      <Field label={T.time.to}>{(id) => <input id={id} value={end} onInput={(event) => setEnd(event.currentTarget.value)} />}</Field>
      {wrong && <Alert message={T.time.wrong} />}
      <Toggle label={T.time.utc} value={inUtc.value} onChange={setUtc} />
      <button type="submit" class="primary">{T.time.apply}</button>
    </form>
  );
}
