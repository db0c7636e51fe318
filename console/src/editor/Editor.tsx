// The editor of SQL and LQL. It lives in a shadow root: there CodeMirror adopts its style sheets, while in the document it
// would write style elements, which the Content-Security-Policy refuses.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { sql } from "@codemirror/lang-sql";
import { bracketMatching, foldKeymap, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Annotation, Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { colours } from "./colours";
import { completeLql, completeSql, type Tables } from "./complete";
import { Echoes } from "./echo";
import { foldHead, folding, unfold } from "./fold";
import { dialect, lql } from "./languages";
import { marks } from "./marks";
import { diagnostic, type Mistake } from "./mistakes";
import { theme } from "./theme";

export interface EditorProps {
  text: string;
  language: "sql" | "lql";
  label: string;
  mistakes?: Mistake[];
  tables?: Tables;
  readOnly?: boolean;
  hint?: string;
  /** Whether long tables before the statement are folded at first. */
  isHeadFolded?: boolean;
  onChange?: (text: string) => void;
  onRun?: () => void;
}

/** Types over a selection without the browser's own editing: that copies the styles of what was selected into an attribute,
 * which the Content-Security-Policy refuses. */
function replaceSelection(event: InputEvent, view: EditorView): boolean {
  const { main } = view.state.selection;
  if (event.inputType !== "insertText" || event.data === null || main.empty || view.composing) return false;
  event.preventDefault();
  const insert = () => view.state.update({ ...view.state.replaceSelection(event.data ?? ""), userEvent: "input.type", scrollIntoView: true });
  const isHandled = view.state.facet(EditorView.inputHandler).some((handler) => handler(view, main.from, main.to, event.data ?? "", insert));
  if (!isHandled) view.dispatch(insert());
  return true;
}

/** Marks a change that comes from the parent, who need not be told of it. */
const ofParent = Annotation.define<boolean>();

export default function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const language = useRef(new Compartment());
  const echoes = useRef(new Echoes());

  useEffect(() => {
    const root = (host.current as HTMLDivElement).shadowRoot ?? (host.current as HTMLDivElement).attachShadow({ mode: "open" });
    const state = EditorState.create({
      doc: props.text,
      extensions: [
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run: (view) => (closeCompletion(view), latest.current.onRun?.(), true) },
          { key: "Shift-Enter", run: (view) => (closeCompletion(view), latest.current.onRun?.(), true) },
        ])),
        // Completion that is still being looked for when the focus goes would open all the same, and stay.
        EditorView.domEventHandlers({ beforeinput: replaceSelection, blur: (_, view) => void setTimeout(() => closeCompletion(view)) }),
        history(),
        drawSelection(),
        lineNumbers(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ icons: false }),
        keymap.of([{ key: "Tab", run: acceptCompletion }, ...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap, ...(props.readOnly ? [] : [indentWithTab])]),
        language.current.of(extensionOf(props.language, () => latest.current.tables ?? new Map())),
        syntaxHighlighting(colours),
        theme,
        folding,
        EditorView.lineWrapping,
        EditorState.readOnly.of(props.readOnly ?? false),
        EditorView.contentAttributes.of({ "aria-label": props.label }),
        ...(props.hint ? [placeholder(props.hint)] : []),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged || update.transactions.every((one) => !one.docChanged || one.annotation(ofParent))) return;
          const text = update.state.doc.toString();
          echoes.current.tell(text);
          latest.current.onChange?.(text);
        }),
      ],
    });
    view.current = new EditorView({ state, parent: root as unknown as Element, root });
    if (props.isHeadFolded) foldHead(view.current);
    return () => view.current?.destroy();
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (!editor || echoes.current.isOwn(props.text) || editor.state.doc.toString() === props.text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: props.text }, annotations: ofParent.of(true) });
  }, [props.text]);

  useEffect(() => {
    view.current?.dispatch({ effects: language.current.reconfigure(extensionOf(props.language, () => latest.current.tables ?? new Map())) });
  }, [props.language]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const found = props.mistakes ?? [];
    if (found.length > 0) unfold(editor);
    editor.dispatch(setDiagnostics(editor.state, found.map((mistake) => diagnostic(editor.state, mistake))));
  }, [props.mistakes]);

  return <div class="editor" ref={host} data-editor />;
}

function extensionOf(language: "sql" | "lql", tables: () => Tables) {
  if (language === "lql") return [lql, lql.data.of({ autocomplete: completeLql(tables) })];
  return [sql({ dialect, upperCaseKeywords: true }).language, marks, dialect.language.data.of({ autocomplete: completeSql(tables) })];
}
