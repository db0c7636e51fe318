// Requests to the server, with the token of the session. Every refusal becomes a Failure; a token that is no longer valid
// ends the session.
import { T } from "../text";
import type { components } from "./schema";
import { type CurrentToken, sessionSignal, signOut, token } from "./session";

export type Schemas = components["schemas"];

/** An answer that is an error, or no answer at all (status 0). */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly errors: { location?: string | null; message: string }[] = [],
  ) {
    super(message);
  }
}

/** The failure that an answer tells of. */
async function failureOf(response: Response): Promise<Failure> {
  try {
    const body = (await response.json()) as Schemas["Error"];
    return new Failure(response.status, body.error.code, body.error.message, body.error.errors);
  } catch {
    return new Failure(response.status, "unknown", T.errors.status(response.status));
  }
}

export interface Options {
  method?: string;
  body?: unknown;
  accept?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Another token than the session's, to try one. */
  as?: string;
}

/** Sends a request and returns the answer, if its status says that it succeeded. Where the session has ended meanwhile, it rejects as if it
 *  were aborted: nobody gets an answer of a former session. */
export async function send(path: string, { method = "GET", body, accept, headers: more, signal, as }: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...more };
  const key = as ?? token.value;
  if (key) headers["x-api-key"] = key;
  if (accept) headers.accept = accept;
  if (body !== undefined) headers["content-type"] = "application/json";
  const session = as === undefined ? sessionSignal() : null;
  // What changes something is not broken off in the middle; only its answer is dropped.
  const until = session && method === "GET" ? AbortSignal.any(signal ? [signal, session] : [session]) : signal;
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: until, cache: "no-store", credentials: "omit" });
    session?.throwIfAborted();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Failure(0, "unreachable", T.errors.unreachable);
  }
  const hidden = Number(response.headers.get("x-tidegate-status") ?? 0);
  if (response.ok && hidden < 400) return response;
  const failure = response.ok ? await asText(response, hidden) : await failureOf(response);
  session?.throwIfAborted();
  if (failure.status === 401 && as === undefined && token.value === key) signOut(failure.message);
  throw failure;
}

/** A server or token may send errors with status 200; then they are texts. */
async function asText(response: Response, status: number): Promise<Failure> {
  const body = (await response.json()) as { error?: string };
  return new Failure(status, "unknown", body.error ?? T.errors.status(status));
}

export async function json<Answer>(path: string, options?: Options): Promise<Answer> {
  const session = options?.as === undefined ? sessionSignal() : null;
  const response = await send(path, options);
  const answer = (response.status === 204 ? undefined : await response.json()) as Answer;
  session?.throwIfAborted();
  return answer;
}

/** An answer with the entity tag of what it shows. */
export async function tagged<Answer>(path: string, options?: Options): Promise<{ value: Answer; tag: string }> {
  const session = sessionSignal();
  const response = await send(path, options);
  const value = (await response.json()) as Answer;
  session.throwIfAborted();
  // A proxy that compresses makes a tag weak, which the server would not take.
  return { value, tag: (response.headers.get("etag") ?? "").replace(/^W\//, "") };
}

/** The header of a request that changes what was read under a tag, and nothing newer. */
export const onlyIf = (tag: string | undefined): Record<string, string> | undefined => (tag ? { "if-match": tag } : undefined);

/** Whether a change is refused because somebody else has changed the same meanwhile. */
export const isOvertaken = (failure: unknown): boolean => failure instanceof Failure && failure.status === 412;

/** A refusal with everything that is wrong, a line each. */
export const linesOf = (failure: unknown): string => (failure instanceof Failure && failure.errors.length > 1 ? failure.errors.map((one) => one.message).join("\n") : messageOf(failure));

/** What a token may do. */
export const currentToken = (as: string): Promise<CurrentToken> => json("/api/access-tokens/current", { as });

/** A name as one segment of a path. */
export const segment = (name: string): string => encodeURIComponent(name);

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
