// The places that a refusal names, for underlining.
import type { Diagnostic } from "@codemirror/lint";
import type { EditorState } from "@codemirror/state";
import { Failure } from "../api/client";

/** A mistake, and the place that the server gave. */
export interface Mistake {
  message: string;
  line: number;
  column: number;
}

const PLACE = /line (\d+), column (\d+)/;

export function mistakesOf(error: unknown): Mistake[] {
  if (!(error instanceof Failure)) return [];
  const found: Mistake[] = [];
  for (const one of error.errors.length > 0 ? error.errors : [{ message: error.message }]) {
    const place = PLACE.exec("location" in one && one.location ? one.location : "") ?? PLACE.exec(one.message) ?? PLACE.exec(error.message);
    if (place) found.push({ message: one.message, line: Number(place[1]), column: Number(place[2]) });
  }
  return found;
}

/** The word or sign at the place of a mistake. */
export function diagnostic(state: EditorState, mistake: Mistake): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(1, mistake.line), state.doc.lines));
  // The server counts characters, of which some are two units of a text in the browser.
  const before = [...line.text].slice(0, Math.max(0, mistake.column - 1)).join("");
  let from = line.from + before.length;
  const length = /^(?:`[^`]*`|[\w.@]+|\|>|\S)/u.exec(line.text.slice(before.length))?.[0].length ?? 0;
  // At the end of the text, the last character is what can be underlined.
  if (length === 0) from = Math.max(0, from - 1);
  return { from, to: Math.max(from + length, Math.min(from + 1, state.doc.length)), severity: "error", message: mistake.message };
}
