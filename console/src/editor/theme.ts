// How the editor looks: the colours of the page, so that it follows the system's choice of dark or light.
import { EditorView } from "@codemirror/view";

export const theme = EditorView.theme({
  "&": { backgroundColor: "var(--field)", color: "var(--text)", fontSize: "13px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--selected)" },
  ".cm-pipe, .cm-pipe *": { color: "var(--code-keyword)", fontWeight: "600" },
  ".cm-dotted-call, .cm-dotted-call *": { color: "var(--code-function)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", color: "var(--muted)", border: "1px solid var(--line-strong)", borderRadius: "4px", margin: "0 4px", padding: "0 6px", font: "inherit", fontSize: "12px", cursor: "pointer" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px", boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px", maxHeight: "16em" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "var(--muted)", marginLeft: "1em" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selected)", color: "inherit" },
  // Without the library's images, which are data: addresses.
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--error)", textDecorationSkipInk: "none", textUnderlineOffset: "3px", backgroundColor: "var(--error-soft)" },
  ".cm-diagnostic": { padding: "6px 10px", maxWidth: "42em", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--error)" },
});
