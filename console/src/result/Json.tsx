// The first rows of an answer as JSON.
import { useMemo } from "preact/hooks";
import { T } from "../text";
import { count, jsonOf } from "./format";
import type { Result } from "./types";

/** The most rows that are written as JSON into the page. */
const MOST_JSON = 200;
/** The most characters of that. */
const MOST_JSON_LENGTH = 200_000;

export function Json({ result }: { result: Result }) {
  const shown = useMemo(() => jsonOf(result, MOST_JSON, MOST_JSON_LENGTH), [result]);
  return (
    <div class="json">
      {shown.isCut ? <p class="hint">{T.explore.firstCharacters(count(MOST_JSON_LENGTH))}</p> : shown.rows < result.rows && <p class="hint">{T.explore.firstRows(shown.rows)}</p>}
      <pre tabIndex={0} aria-label={T.explore.json}>{shown.text}</pre>
    </div>
  );
}
