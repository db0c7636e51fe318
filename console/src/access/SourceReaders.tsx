// Who reads a source: the classes of tokens, with the endpoints through which they do.
import { json, type Schemas } from "../api/client";
import { T } from "../text";
import { Alert } from "../ui/parts";
import { useLoaded } from "../ui/load";
import { AccessTable, linesOf } from "./AccessTable";

type Class = Schemas["AccessOfClasses"]["classes"][number];

/** Those that are refused something come first. */
function sorted(classes: Class[]): Class[] {
  const refused = (one: Class): number => (linesOf(one.endpoints).some((line) => line.refused) ? 0 : 1);
  return classes.map((one) => ({ one, refused: refused(one) })).sort((a, b) => a.refused - b.refused).map(({ one }) => one);
}

export function SourceReaders({ name }: { name: string }) {
  const path = `/api/access?${new URLSearchParams({ source: name }).toString()}`;
  const { value, error } = useLoaded((signal) => json<Schemas["AccessOfClasses"]>(path, { signal }), [path]);
  if (error) return <Alert message={error} />;
  if (!value) return <p class="hint">{T.common.loading}</p>;
  return (
    <div class="stack">
      <p class="hint">{T.access.readersHint}</p>
      {value.classes.length === 0 && <p>{T.access.nobody}</p>}
      {sorted(value.classes).map((one) => (
        <section key={`${one.scopes} ${one.pinned.join(" ")} ${JSON.stringify(one.limits)}`}>
          <h3>{T.access.class(one.tokens, one.scopes, one.pinned)}</h3>
          {one.private && <p class="hint">{T.access.private}</p>}
          <AccessTable endpoints={one.endpoints} />
        </section>
      ))}
    </div>
  );
}
