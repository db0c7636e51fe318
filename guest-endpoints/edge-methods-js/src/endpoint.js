// The endpoint of ../edge-methods in JavaScript: requests, errors and their share by method. Of the outside world it
// has what the contract has: no console, no clock, no fetch, no file.

import { run } from "tidegate:endpoint/statements@0.1.0";
import { ResultSet } from "tidegate:endpoint/results@0.1.0";
import { Response } from "tidegate:endpoint/exchange@0.1.0";

/** Rows that enter the guest at once. */
const BATCH_ROWS = 4096;

const isNull = ({ validity }, row) => validity !== undefined && validity[row] === 0;

/** The texts of a series, one for each row; null where there is none. */
function texts(series, rows) {
  const { offsets, buffer } = series.data.val;
  const decoder = new TextDecoder();
  const text = (row) => decoder.decode(buffer.subarray(offsets[row], offsets[row + 1]));
  return Array.from({ length: rows }, (_, row) => (isNull(series, row) ? null : text(row)));
}

/** Whether the number of a row is at least `least`; never where there is none. */
const atLeast = (series, row, least) => !isNull(series, row) && series.data.val[row] >= least;

function count(requests) {
  const counts = new Map();
  for (let batch; (batch = requests.next(BATCH_ROWS)); ) {
    const [method, status] = batch.columns;
    texts(method, batch.rows).forEach((method, row) => {
      const count = counts.get(method) ?? { method, requests: 0, errors: 0 };
      count.requests += 1;
      count.errors += atLeast(status, row, 500n) ? 1 : 0;
      counts.set(method, count);
    });
  }
  const order = (a, b) => b.requests - a.requests || ((a.method ?? "") < (b.method ?? "") ? -1 : 1);
  return [...counts.values()].sort(order);
}

/** Texts as the contract has them: offsets and one buffer. */
function packed(values) {
  const encoder = new TextEncoder();
  const bytes = values.map((value) => encoder.encode(value ?? ""));
  const offsets = [0];
  for (const { length } of bytes) offsets.push(offsets.at(-1) + length);
  return { offsets: new Uint32Array(offsets), buffer: new Uint8Array(bytes.flatMap((text) => [...text])) };
}

function rows(counts) {
  const of = (key) => counts.map((count) => count[key]);
  const integers = (values) => ({ data: { tag: "int64s", val: new BigInt64Array(values.map(BigInt)) } });
  const shares = counts.map(({ requests, errors }) => errors / requests);
  return ResultSet.make(
    [
      { name: "method", kind: "text", nullable: true },
      { name: "requests", kind: "int64", nullable: false },
      { name: "errors", kind: "int64", nullable: false },
      { name: "error_share", kind: "float64", nullable: false },
    ],
    [
      {
        rows: counts.length,
        columns: [
          {
            validity: new Uint8Array(of("method").map((method) => (method === null ? 0 : 1))),
            data: { tag: "texts", val: packed(of("method")) },
          },
          integers(of("requests")),
          integers(of("errors")),
          { data: { tag: "float64s", val: new Float64Array(shares) } },
        ],
      },
    ],
  );
}

export const handler = {
  handle(_request) {
    try {
      return Response.rows(rows(count(run("default", []))));
    } catch (error) {
      // What a call into the host throws has a payload with a tag: the host knows it, and answers with it.
      const ofHost = error?.payload?.tag !== undefined;
      throw { code: ofHost ? "statement-failed" : "failed", detail: ofHost ? "" : String(error), retryable: false };
    }
  },
};
