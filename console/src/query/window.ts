// Windows of time that move: what an alert asks for at each run, and what a saved query asks for where its caller says nothing else.
import { boundsOf, type RangeText } from "./timeRange";

const UNITS: [string, number, string][] = [
  ["w", 604_800_000, "week"],
  ["d", 86_400_000, "day"],
  ["h", 3_600_000, "hour"],
  ["m", 60_000, "minute"],
  ["s", 1000, "second"],
];

/** The windows that are offered, as the server writes their starts. */
export const WINDOWS = ["now-5m", "now-15m", "now-1h", "now-6h", "now-24h", "now-7d"];

/** The start of a window of so many milliseconds until now. */
export function windowOf(ms: number): string {
  // A day is more often said in hours than a week in days.
  const [unit, size] = ms === 86_400_000 ? ["h", 3_600_000] : (UNITS.find(([, size]) => ms >= size && ms % size === 0) ?? ["s", 1000]);
  return `now-${Math.max(1, Math.ceil(ms / (size as number)))}${unit}`;
}

/** A window in words, such as `the last 5 minutes`; null where the text is no start of one. */
export function windowInWords(start: string): string | null {
  const [, number = "", unit = ""] = /^now-(\d+)([smhdw])$/.exec(start.trim()) ?? [];
  const name = UNITS.find(([sign]) => sign === unit)?.[2];
  if (name === undefined) return null;
  return Number(number) === 1 ? `the last ${name}` : `the last ${number} ${name}s`;
}

/** How long the range of a view is; null where it has no bounds. */
export function lengthOf(range: RangeText): number | null {
  const bounds = boundsOf(range);
  return bounds && Math.round(bounds.end - bounds.start);
}

const ZOOM = "timestamp >= TIMESTAMP_MICROS\\((\\d+)\\) AND timestamp < TIMESTAMP_MICROS\\((\\d+)\\)";

/** A statement with a parameter in the place of the times that zooming has written into it, and the start that the parameter has
 *  unless it is sent. Null where it has no such times. */
export function withoutZoom(sql: string, parameter: string): { sql: string; start: string } | null {
  const zooms = [...sql.matchAll(new RegExp(ZOOM, "g"))];
  const last = zooms.at(-1);
  if (!last) return null;
  // One zoom lies within the other, and the last one is the narrowest.
  const seconds = Math.ceil((Number(last[2]) - Number(last[1])) / 1_000_000);
  const once = zooms.length > 1 ? sql.replace(new RegExp(`\\s+AND ${ZOOM}`, "g"), (text, _start, _end, at: number) => (at > (zooms[0]?.index ?? 0) ? "" : text)) : sql;
  return { sql: once.replace(new RegExp(ZOOM), `timestamp >= @${parameter}`), start: windowOf(seconds * 1000) };
}
