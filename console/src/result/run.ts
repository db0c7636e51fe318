// Runs an endpoint or an ad-hoc query and reads the answer.
import { Failure, segment, send } from "../api/client";
import { readArrow, readRows } from "./arrow";
import type { Cost, Result } from "./types";

const ARROW = "application/vnd.apache.arrow.stream";

/** The parameters of a request: those of the endpoint, and `sql` or `lql`. */
export type Parameters = Record<string, string>;

/** Runs a query. Aborting the signal closes the connection, and the server then stops the query. */
export async function run(endpoint: string, parameters: Parameters, signal?: AbortSignal): Promise<Result> {
  return answerOf(`/api/endpoints/query/${segment(endpoint)}`, given(parameters), signal);
}

/** Runs a draft of an endpoint, which is not saved. */
export async function runDraft(endpoint: string, fields: object, parameters: Parameters, signal?: AbortSignal): Promise<Result> {
  return answerOf(`/api/endpoints/${segment(endpoint)}/try`, { ...fields, arguments: given(parameters) }, signal);
}

/** The parameters that have a value. */
const given = (parameters: Parameters): Parameters => Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== ""));

async function answerOf(path: string, body: object, signal?: AbortSignal): Promise<Result> {
  const began = performance.now();
  const response = await send(path, { method: "POST", body, accept: ARROW, signal }).catch((error: unknown) => {
    // A component may answer a document, which is no table: that is read as JSON.
    if (error instanceof Failure && error.status === 400 && /arrow/i.test(error.message)) return send(path, { method: "POST", body, accept: "application/json", signal });
    throw error;
  });
  const bytes = await response.arrayBuffer();
  const isArrow = response.headers.get("content-type")?.startsWith(ARROW) ?? false;
  const columns = isArrow ? readArrow(bytes) : readRows((JSON.parse(new TextDecoder().decode(bytes)) as { result: unknown }).result);
  const notes = [...response.headers].filter(([name]) => name.startsWith("x-tidegate-note-")).map(([, value]) => decoded(value));
  return { ...columns, truncated: response.headers.get("x-result-truncated") === "true", bytes: bytes.byteLength, milliseconds: performance.now() - began, cost: costOf(response.headers.get("x-tidegate-cost")), notes };
}

/** Reads the header of the cost: `statements=1, rows-read=20, ...`. */
function costOf(header: string | null): Cost | null {
  if (header === null) return null;
  const values = new Map(header.split(",").map((part) => part.trim().split("=", 2) as [string, string]));
  const value = (name: string): number => Number(values.get(name) ?? 0);
  return { statements: value("statements"), rowsRead: value("rows-read"), bytesRead: value("bytes-read"), memory: value("memory") };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Saves an answer of the server as a file. */
export async function download(endpoint: string, parameters: Parameters, format: string): Promise<void> {
  const path = `/api/endpoints/query/${segment(endpoint)}?format=${format}`;
  const response = await send(path, { method: "POST", body: given(parameters) });
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = `${endpoint.replace(/[^\w.-]+/g, "_")}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
