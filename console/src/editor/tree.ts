// The tokens of a statement as a tree: brackets hold what is between them. What a clause holds is then a list.
import { isReserved, tokens, type Token } from "../sqlText";

export interface Node extends Token {
  /** In capitals, where it may be a word of the language: `a.group` has none. */
  word: string;
  /** What is in the brackets that this node is; its `end` is behind the closing one. */
  inner?: Node[];
  /** Where the closing bracket stands; nowhere while it is not written. */
  until: number;
}

/** A list of nodes between two separators, and where these stand. */
export interface Part {
  nodes: Node[];
  from: number;
  to: number;
}

/** The most brackets within one another. Those within them are as other signs. */
const DEPTH = 60;

export function tree(sql: string): Node[] {
  const root: Node[] = [];
  const open: { node: Node; inner: Node[] }[] = [];
  let before = "";
  for (const token of tokens(sql)) {
    const level = open.at(-1)?.inner ?? root;
    if (/^[([{]$/.test(token.text) && open.length < DEPTH) {
      const inner: Node[] = [];
      const node = { ...token, word: "", inner, end: Infinity, until: Infinity };
      level.push(node);
      open.push({ node, inner });
    } else if (/^[)\]}]$/.test(token.text) && token.depth < DEPTH) {
      const closed = open.pop();
      if (closed) Object.assign(closed.node, { until: token.start, end: token.end });
    } else {
      level.push({ ...token, word: token.kind === "word" && before !== "." ? token.text.toUpperCase() : "", until: token.end });
    }
    before = token.text;
  }
  return root;
}

/** The parts between separators, which are left out; a separator's place is where a part begins or ends. */
export function split(nodes: Node[], isSeparator: (node: Node, at: number) => boolean): Part[] {
  const parts: Part[] = [{ nodes: [], from: -Infinity, to: Infinity }];
  nodes.forEach((node, at) => {
    const last = parts.at(-1) as Part;
    if (!isSeparator(node, at)) return void last.nodes.push(node);
    last.to = node.start;
    parts.push({ nodes: [], from: node.end, to: Infinity });
  });
  return parts;
}

export const items = (nodes: Node[]): Node[][] => split(nodes, (node) => node.text === ",").map((part) => part.nodes);

/** Whether a place is between the brackets that a node is. */
export const contains = (node: Node | undefined, at: number): boolean => node?.inner !== undefined && node.start < at && at <= node.until;

/** The name that a word or quoted name is; null where it is none. */
export function nameOf(node: Node | undefined): string | null {
  if (node?.kind === "quoted") return node.text.slice(1, -1).replace(/\\(.)/g, "$1");
  return node?.kind === "word" && !isReserved(node.word) && !node.text.startsWith("@") ? node.text : null;
}

/** The name that stands behind AS or a dot, where words of the language are names too. */
export const aliasOf = (node: Node | undefined): string | null => nameOf(node) ?? (node?.kind === "word" ? node.text : null);

/** Whether a value may end with this node. */
export function endsValue(node: Node | undefined): boolean {
  if (node === undefined) return false;
  return node.inner !== undefined || node.kind === "text" || nameOf(node) !== null || /^[\d@]/.test(node.text) || /^(END|NULL|TRUE|FALSE)$/.test(node.word);
}

/** All names in these nodes. */
export function namesIn(nodes: Node[]): string[] {
  return nodes.flatMap((node) => (node.inner ? namesIn(node.inner) : (nameOf(node) ?? [])));
}
