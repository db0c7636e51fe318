// Two texts and what differs between them, in a shadow root as the editor.
import { sql } from "@codemirror/lang-sql";
import { syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { colours } from "./colours";
import { dialect } from "./languages";
import { theme } from "./theme";

const changes = EditorView.theme({
  "&": { height: "auto" },
  ".cm-changedLine": { backgroundColor: "var(--done-soft) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--error-soft) !important", paddingLeft: "6px" },
  ".cm-changedText": { background: "none !important", fontWeight: "700" },
  ".cm-deletedText": { background: "none !important", fontWeight: "700", textDecoration: "none !important" },
  ".cm-deletedLine": { textDecoration: "none" },
  ".cm-insertedLine": { textDecoration: "none" },
  ".cm-collapsedLines": { background: "var(--hover) !important", color: "var(--muted)" },
  // The library's signs beside these words are characters that few fonts have.
  ".cm-collapsedLines::before, .cm-collapsedLines::after": { content: "none !important" },
  ".cm-changeGutter": { display: "none" },
});

export default function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current as HTMLDivElement;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const state = EditorState.create({
      doc: after,
      extensions: [
        lineNumbers(),
        sql({ dialect }).language,
        syntaxHighlighting(colours),
        theme,
        changes,
        EditorView.lineWrapping,
        EditorState.readOnly.of(true),
        EditorView.contentAttributes.of({ "aria-label": label }),
        unifiedMergeView({ original: before, mergeControls: false, gutter: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
      ],
    });
    const view = new EditorView({ state, parent: root as unknown as Element, root });
    return () => view.destroy();
  }, [before, after]);
  return <div class="diff" ref={host} />;
}
