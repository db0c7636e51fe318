// The access token of this tab and what it may do. The token is kept in sessionStorage: it ends with the tab, and is in no
// cookie, no address and no log.
import { computed, signal } from "@preact/signals";
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

export function signIn(value: string, current: CurrentToken): void {
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // Without storage the session lives as long as the page.
  }
  if (token.value !== value) endSession();
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
  token.value = null;
  access.value = null;
  endedBecause.value = because;
}
