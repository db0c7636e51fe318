// The colours of code.
import { HighlightStyle } from "@codemirror/language";
import { tags } from "@lezer/highlight";

export const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.propertyName, tags.special(tags.name)], color: "var(--code-name)" },
  { tag: [tags.standard(tags.name), tags.typeName, tags.function(tags.name)], color: "var(--code-function)" },
  { tag: tags.operator, color: "var(--muted)" },
]);
