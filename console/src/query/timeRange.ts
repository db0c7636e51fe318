// The time range of a view: relative to now (`24h`), or between two times.
import type { Range } from "./histogram";

/** `15m`, `24h`, `7d`; or two ISO times with `/` between; empty is no bound. */
export type RangeText = string;

export const RELATIVE: { text: RangeText; ms: number; label: string }[] = [
  { text: "15m", ms: 900_000, label: "Last 15 minutes" },
  { text: "1h", ms: 3_600_000, label: "Last hour" },
  { text: "6h", ms: 21_600_000, label: "Last 6 hours" },
  { text: "24h", ms: 86_400_000, label: "Last 24 hours" },
  { text: "3d", ms: 259_200_000, label: "Last 3 days" },
  { text: "7d", ms: 604_800_000, label: "Last 7 days" },
  { text: "30d", ms: 2_592_000_000, label: "Last 30 days" },
];

/** The bounds that a text means now; null is no bound. */
export function boundsOf(text: RangeText, now = Date.now()): Range | null {
  const relative = RELATIVE.find((one) => one.text === text);
  if (relative) return { start: now - relative.ms, end: now };
  const [start, end] = text.split("/").map((part) => Date.parse(part));
  return start !== undefined && end !== undefined && end > start ? { start, end } : null;
}

/** A time that is written by hand, in UTC or in the zone of the browser; NaN where it is none. */
export function parsed(text: string, utc: boolean): number {
  const plain = text.trim().replace(" ", "T");
  // JavaScript takes a day without a time for one in UTC.
  const whole = /^\d{4}-\d\d-\d\d$/.test(plain) ? `${plain}T00:00:00` : plain;
  return Date.parse(utc && /^\d{4}-\d\d-\d\dT[\d:.]+$/.test(whole) ? `${whole}Z` : whole);
}

export function absolute({ start, end }: Range): RangeText {
  return `${new Date(start).toISOString()}/${new Date(end).toISOString()}`;
}
