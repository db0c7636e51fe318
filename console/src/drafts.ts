// What was written and is not saved yet: kept while other tabs and pages are shown, and by the tab's storage over a reload. It
// ends with the session, because the next one may be somebody else's.
import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";

const KEY = "tidegate.drafts";

type Drafts = Readonly<Record<string, unknown>>;

function read(): Drafts {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Drafts) : {};
  } catch {
    return {};
  }
}

const drafts = signal<Drafts>(read());
/** Whether the storage does not take them: a reload would lose them. */
let isOnlyHere = false;

function store(): void {
  try {
    if (Object.keys(drafts.value).length === 0) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, JSON.stringify(drafts.value));
    isOnlyHere = false;
  } catch {
    isOnlyHere = Object.keys(drafts.value).length > 0;
  }
}

globalThis.addEventListener?.("beforeunload", (event) => {
  if (isOnlyHere) event.preventDefault();
});

/** What is kept under a name. */
export function draftOf<Value>(name: string): Value | undefined {
  return Object.hasOwn(drafts.value, name) ? (drafts.value[name] as Value) : undefined;
}

export function keepDraft(name: string, value: unknown): void {
  drafts.value = { ...drafts.value, [name]: value };
  store();
}

export function dropDraft(name: string): void {
  if (!Object.hasOwn(drafts.value, name)) return;
  const { [name]: _dropped, ...others } = drafts.value;
  drafts.value = others;
  store();
}

let put: Drafts = {};

/** The session has ended. One that ended by itself leaves its drafts in the page, for the same holder. */
export function endDrafts(byItself: boolean): void {
  put = byItself ? drafts.value : {};
  drafts.value = {};
  store();
}

/** A session begins; `isSame` says whether its holder is that of the last one. */
export function beginDrafts(isSame: boolean): void {
  if (isSame && Object.keys(put).length > 0) {
    drafts.value = { ...put, ...drafts.value };
    store();
  }
  put = {};
}

/** The state of a form, kept under a name from the first change on. */
export function useDraft<Value>(name: string, start: () => Value): { value: Value; set: (value: Value) => void; update: (change: (before: Value) => Value) => void; drop: () => void } {
  const [value, setValue] = useState<Value>(() => draftOf<Value>(name) ?? start());
  /** Two changes may come before it is drawn again: the second one is of the first. */
  const latest = useRef(value);
  const isDropped = useRef(false);
  const set = (next: Value): void => {
    latest.current = next;
    setValue(() => next);
    if (!isDropped.current) keepDraft(name, next);
  };
  return {
    value,
    set,
    update: (change) => set(change(latest.current)),
    drop: () => {
      isDropped.current = true;
      dropDraft(name);
    },
  };
}
