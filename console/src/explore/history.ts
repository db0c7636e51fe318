// What this browser ran before, newest first, and what was written and never run where something else took its place. It holds
// texts of queries, never a token or a row, and is forgotten when its holder signs out.
import { signal } from "@preact/signals";
import { onForget } from "../api/session";

export interface Entry {
  endpoint: string;
  mode: string;
  text: string;
  address: string;
  /** When it ran, in milliseconds. */
  at: number;
  /** The time range and the parameters, which the text does not show. */
  with: string;
  /** Whether it was written and not run. */
  unrun?: boolean;
}

const KEY = "tidegate.history";
const MOST = 50;

function read(): Entry[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? (found as Entry[]).filter((one) => typeof one?.text === "string" && typeof one.address === "string" && one.address.startsWith("#/explore")) : [];
  } catch {
    return [];
  }
}

export const history = signal<Entry[]>(read());

function write(entries: Entry[]): void {
  history.value = entries;
  try {
    localStorage.setItem(KEY, JSON.stringify(entries));
  } catch {
    // Without storage the history lasts as long as the page.
  }
}

export function remember(entry: Entry): void {
  const others = history.value.filter((one) => one.text !== entry.text || one.endpoint !== entry.endpoint || one.mode !== entry.mode || one.with !== entry.with);
  write([entry, ...others].slice(0, MOST));
}

/** Also of what is in the storage: other tabs write there. */
export function forget(): void {
  write([]);
  try {
    localStorage.removeItem(KEY);
  } catch {
    // As above.
  }
}
onForget(forget);
