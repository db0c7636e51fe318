// What a token may do, in sentences.
import { T } from "../text";

export function inWords(scopes: string, pinned: Record<string, string>): string[] {
  const lines = scopes.split(/\s+/).filter(Boolean).map((scope) => {
    if (scope === "private") return T.tokens.words.private;
    if (scope === "query") return T.tokens.words.query;
    if (scope === "ingest" || scope === "public") return T.tokens.words.ingest;
    if (scope.startsWith("query:endpoint:")) return T.tokens.words.queryOne(scope.slice("query:endpoint:".length));
    if (scope.startsWith("ingest:source:")) return T.tokens.words.ingestOne(scope.slice("ingest:source:".length));
    return scope;
  });
  for (const [name, value] of Object.entries(pinned)) lines.push(T.tokens.words.pinned(name, value));
  return lines;
}
