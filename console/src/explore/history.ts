// What this browser ran before, newest first. It holds texts of queries, never a token or a row.
import { signal } from "@preact/signals";

export interface Entry {
  endpoint: string;
  mode: string;
  text: string;
  address: string;
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
  const others = history.value.filter((one) => one.text !== entry.text || one.endpoint !== entry.endpoint || one.mode !== entry.mode);
  write([entry, ...others].slice(0, MOST));
}

export const forget = (): void => write([]);
