// A stream of events that is kept: where the connection breaks off, it is asked for again with the id of the last event, after
// a pause that becomes longer with each try in vain.
import { T } from "../text";
import { Failure, segment, send } from "./client";
import { EventParser, type StreamEvent } from "./events";
import { sessionSignal } from "./session";

const EVENTS = "text/event-stream";
/** The pauses before the next tries, in milliseconds. */
const PAUSES = [500, 1000, 2000, 4000, 8000, 15_000];
/** The server sends a sign of life every 15 seconds; after so long without one, the connection is taken for broken. */
const SILENCE = 60_000;

export interface Listener {
  /** The server answers. `isNew` where the stream begins, and does not go on after the last event. */
  opened(isNew: boolean): void;
  /** The events of one piece. Returns whether the stream is over. */
  events(events: StreamEvent[]): boolean;
  /** The connection broke off; it is tried again. */
  broken(): void;
}

/** Follows the query of an endpoint until the signal is aborted, the session ends, or the listener says that it is over. Rejects with the failure where
 *  asking again is of no use: the query is refused, or the server did not answer the first time. */
export async function follow(endpoint: string, parameters: Record<string, string>, stop: AbortSignal, listener: Listener, pauses = PAUSES): Promise<void> {
  const signal = AbortSignal.any([stop, sessionSignal()]);
  const path = `/api/endpoints/query/${segment(endpoint)}`;
  const body = Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== ""));
  let lastId = "";
  let isKnown = false;
  for (let tries = 0; ; tries += 1) {
    const silence = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const alive = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE);
    };
    const parser = new EventParser();
    parser.lastId = lastId;
    try {
      alive();
      const response = await send(path, { method: "POST", body, accept: EVENTS, headers: lastId ? { "last-event-id": lastId } : undefined, signal: AbortSignal.any([signal, silence.signal]) });
      if (!response.headers.get("content-type")?.startsWith(EVENTS) || !response.body) throw new Failure(response.status, "no_events", T.errors.noEvents);
      isKnown = true;
      listener.opened(lastId === "");
      const reader = response.body.getReader();
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        alive();
        // A sign of life shows that the connection holds.
        tries = 0;
        const events = parser.push(piece.value);
        if (listener.events(events)) return await reader.cancel();
        // Before the first rows are all there, the stream is asked for from its start.
        if (lastId !== "" || events.some((event) => event.name === "live")) lastId = parser.lastId;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RangeError || (error instanceof Failure && (!isKnown || !isPassing(error)))) throw error;
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
    if (signal.aborted) return;
    listener.broken();
    await pause(pauses[Math.min(tries, pauses.length - 1)] ?? 1000, signal);
    if (signal.aborted) return;
  }
}

/** Whether a refusal may be over soon: no answer, too many requests, or the server is in trouble. */
function isPassing(failure: Failure): boolean {
  return failure.status === 0 || failure.status === 429 || failure.status >= 500;
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    // Pages that lost the same server do not come back in the same moment.
    const timer = setTimeout(done, milliseconds * (0.75 + Math.random() / 2));
    signal.addEventListener("abort", done);
  });
}
