// What the grammar of SQL colors as plain text, though the dialect has it: pipes, functions with a dot in their names, and calls behind
// a value.
import { syntaxTree } from "@codemirror/language";
import { Decoration, type DecorationSet, type EditorView, MatchDecorator, ViewPlugin, type ViewUpdate } from "@codemirror/view";

const PATTERN = /\|>|\b(?:HLL_COUNT|NET|SAFE)\.\w+(?=\s*\()|(?<=\)\s*\.\s*)\w+(?=\s*\()/gi;
const PIPE = Decoration.mark({ class: "cm-pipe" });
const CALL = Decoration.mark({ class: "cm-dotted-call" });
const OTHER = /^(?:String|LineComment|BlockComment|QuotedIdentifier)$/;

const matches = new MatchDecorator({
  regexp: PATTERN,
  decorate(add, from, to, match, view) {
    if (!OTHER.test(syntaxTree(view.state).resolveInner(from, 1).name)) add(from, to, match[0] === "|>" ? PIPE : CALL);
  },
});

export const marks = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = matches.createDeco(view);
    }
    update(update: ViewUpdate): void {
      // A quote that is written far above makes a text of what follows: what was parsed anew is looked at anew.
      const isParsed = syntaxTree(update.startState) !== syntaxTree(update.state);
      this.decorations = isParsed ? matches.createDeco(update.view) : matches.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);
