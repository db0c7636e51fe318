// Reads something from the server for a page, and again on demand.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../api/client";

/** How long one answer may take, in milliseconds, where it is asked for again and again. */
export const LONGEST = 60_000;

export interface Loaded<Value> {
  value: Value | null;
  error: string | null;
  reload: () => void;
}

/** The answer of `read`, which is asked again when one of `inputs` changes, and every `every` milliseconds if told. */
export function useLoaded<Value>(read: (signal: AbortSignal) => Promise<Value>, inputs: unknown[], every?: number): Loaded<Value> {
  const [value, setValue] = useState<Value | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => setValue(null), inputs);
  useEffect(() => {
    const controller = new AbortController();
    let isAsking = false;
    const ask = (): void => {
      // One at a time: an older answer would come after a newer one, and a slow server would get more and more to do.
      if (isAsking) return;
      isAsking = true;
      latest
        .current(every === undefined ? controller.signal : AbortSignal.any([controller.signal, AbortSignal.timeout(LONGEST)]))
        .then((found) => {
          if (controller.signal.aborted) return;
          setValue(() => found);
          setError(null);
        })
        .catch((failure: unknown) => {
          if (!controller.signal.aborted && !isAbort(failure)) setError(messageOf(failure));
        })
        .finally(() => {
          isAsking = false;
        });
    };
    ask();
    const timer = every === undefined ? undefined : setInterval(ask, every);
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, [...inputs, turn]);
  return { value, error, reload: useCallback(() => setTurn((turn) => turn + 1), []) };
}

export interface Action {
  /** Whether one is under way. */
  busy: boolean;
  /** Does something, unless it is under way: a second click does nothing. What comes of it is told as long as the part of the page is there. */
  act: <Value>(work: () => Promise<Value>, done: (value: Value) => void, failed: (failure: unknown) => void) => void;
}

/** What a button or a form does, once at a time. */
export function useAction(): Action {
  const [busy, setBusy] = useState(false);
  const isBusy = useRef(false);
  const isThere = useRef(true);
  useEffect(() => () => {
    isThere.current = false;
  }, []);
  const act: Action["act"] = (work, done, failed) => {
    if (isBusy.current) return;
    isBusy.current = true;
    setBusy(true);
    work()
      .then((value) => isThere.current && done(value), (failure: unknown) => isThere.current && !isAbort(failure) && failed(failure))
      .finally(() => {
        isBusy.current = false;
        if (isThere.current) setBusy(false);
      });
  };
  return { busy, act };
}
