// Reads something from the server for a page, and again on demand.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort, messageOf } from "../api/client";

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
    const ask = (): void => {
      latest
        .current(controller.signal)
        .then((found) => {
          setValue(() => found);
          setError(null);
        })
        .catch((failure: unknown) => {
          if (!isAbort(failure)) setError(messageOf(failure));
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
