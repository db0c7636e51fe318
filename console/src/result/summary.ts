// What came of a query and what it cost, in one line.
import { T } from "../text";
import { bytes, count, duration } from "./format";
import type { Result } from "./types";

export function summary(result: Result): string {
  const { rows, cost } = result;
  // Rows that came live are no answer that had a size and took a time.
  if (result.newest !== undefined) return T.explore.rows(rows);
  const parts = [T.explore.rows(rows), bytes(result.bytes), duration(result.milliseconds)];
  if (cost) parts.push(T.explore.cost(count(cost.rowsRead), bytes(cost.bytesRead), bytes(cost.memory)));
  return parts.join(" · ");
}
