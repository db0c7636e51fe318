// The access token of this tab and what it may do. The token is kept in sessionStorage: it ends with the tab, and is in no
// cookie, no address and no log.
import { computed, signal } from "@preact/signals";
import { beginDrafts, endDrafts } from "../drafts";
import type { components } from "./schema";

export type CurrentToken = components["schemas"]["CurrentAccessToken"];

const KEY = "tidegate.token";

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const token = signal<string | null>(stored());
/** What the token may do; null until the server has said it. */
export const access = signal<CurrentToken | null>(null);
/** Why the last session ended, where it ended by itself. */
export const endedBecause = signal<string | null>(null);

let session = new AbortController();

/** Aborted when the session ends that it is asked for in. What was asked in a session has no place in the next one. */
export const sessionSignal = (): AbortSignal => session.signal;

function endSession(): void {
  session.abort();
  session = new AbortController();
}

export const isPrivate = computed(() => (access.value?.scopes ?? "").split(" ").includes("private"));

/** Who the last session was of, as far as the server tells: its id, and without one what else is known. */
const holderOf = ({ id, description, scopes, pinned }: CurrentToken): string => JSON.stringify([id ?? null, description, scopes, pinned]);
const HOLDER = "tidegate.holder";
let holder = heldBy();

/** Who signed in last in this browser: what it keeps of sessions, the history of queries, is theirs. */
function heldBy(): string {
  try {
    return localStorage.getItem(HOLDER) ?? "";
  } catch {
    return "";
  }
}

function holds(next: string): void {
  holder = next;
  try {
    if (next === "") localStorage.removeItem(HOLDER);
    else localStorage.setItem(HOLDER, next);
  } catch {
    // Then nothing else is kept either.
  }
}

/** What is forgotten when another holder signs in, or this one signs out. */
const forgotten: (() => void)[] = [];
export const onForget = (forget: () => void): void => void forgotten.push(forget);

export function signIn(value: string, current: CurrentToken): void {
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // Without storage the session lives as long as the page.
  }
  if (token.value !== value) endSession();
  const isSame = holder === holderOf(current);
  holds(holderOf(current));
  if (!isSame) for (const forget of forgotten) forget();
  beginDrafts(isSame);
  token.value = value;
  access.value = current;
  endedBecause.value = null;
}

export function signOut(because: string | null = null): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // As above.
  }
  endSession();
  endDrafts(because !== null);
  if (because === null) {
    for (const forget of forgotten) forget();
    holds("");
  }
  token.value = null;
  access.value = null;
  endedBecause.value = because;
}
