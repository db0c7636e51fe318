// Long tables of WITH before a statement, folded to one line: whoever wrote the statement sees it first.
import { codeFolding, foldEffect, unfoldAll } from "@codemirror/language";
import type { EditorView } from "@codemirror/view";
import { headOf } from "../sqlText";
import { T } from "../text";

/** The most lines before a statement that are shown. */
const MOST_LINES = 12;

export const folding = codeFolding({
  preparePlaceholder: (state, range) => state.doc.lineAt(range.to).number - state.doc.lineAt(range.from).number + 1,
  placeholderDOM: (_, onclick, lines: number) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "cm-foldPlaceholder", textContent: T.editor.folded(lines), onclick });
    return button;
  },
});

/** Folds what stands between WITH and the statement, where it is long. */
export function foldHead(view: EditorView): void {
  const head = headOf(view.state.doc.toString())?.trimEnd() ?? "";
  const from = /^(?:\s|--[^\n]*|#[^\n]*)*WITH\b/i.exec(head)?.[0].length;
  if (from === undefined || head.slice(from).split("\n").length <= MOST_LINES) return;
  view.dispatch({ effects: foldEffect.of({ from, to: head.length }) });
}

/** Shows what is folded, such as for a mistake in it. */
export const unfold = (view: EditorView): void => void unfoldAll(view);
