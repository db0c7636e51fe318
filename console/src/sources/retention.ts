// How long and how much a source keeps, in words.
import type { SourceRecord } from "../api/records";
import { bytes } from "../result/format";
import { T } from "../text";

export function retention(source: SourceRecord): string {
  const parts = [];
  if (source.effective_retention_days) parts.push(T.sources.days(source.effective_retention_days));
  if (source.effective_retention_bytes) parts.push(bytes(source.effective_retention_bytes));
  return parts.length > 0 ? parts.join(", ") : T.sources.forEver;
}
