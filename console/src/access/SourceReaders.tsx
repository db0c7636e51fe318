// Who reads a source: the classes of tokens, the rules of issuers and the alerts, with the endpoints through which they do.
import { json, type Schemas } from "../api/client";
import { T } from "../text";
import { Alert } from "../ui/parts";
import { useLoaded } from "../ui/load";
import { AccessTable, linesOf, type Reading } from "./AccessTable";

export interface Reader {
  title: string;
  hint: string | null;
  endpoints: Reading[];
}

/** All who read, those first that are refused something. */
export function readersOf({ classes, rules, alerts }: Schemas["AccessOfClasses"]): Reader[] {
  const hint = (isPrivate: boolean): string | null => (isPrivate ? T.access.private : null);
  const readers: Reader[] = [
    ...classes.map((one) => ({ title: T.access.class(one.tokens, one.scopes, one.pinned), hint: hint(one.private), endpoints: one.endpoints })),
    ...rules.map((one) => ({ title: T.access.rule(one.rule, one.scopes, Object.keys(one.pinned)), hint: hint(one.private), endpoints: one.endpoints })),
    ...alerts.map((one) => ({
      title: T.access.alert(one.alert, one.endpoint, one.receiver),
      hint: T.access.alertTenant(Object.entries(one.tenant).map(([key, value]) => `${key} = ${value}`)),
      endpoints: one.endpoints,
    })),
  ];
  const isRefused = (one: Reader): boolean => linesOf(one.endpoints).some((line) => line.refused);
  return [...readers.filter(isRefused), ...readers.filter((one) => !isRefused(one))];
}

export function SourceReaders({ name }: { name: string }) {
  const path = `/api/access?${new URLSearchParams({ source: name }).toString()}`;
  const { value, error } = useLoaded((signal) => json<Schemas["AccessOfClasses"]>(path, { signal }), [path]);
  if (error) return <Alert message={error} />;
  if (!value) return <p class="hint">{T.common.loading}</p>;
  const readers = readersOf(value);
  return (
    <div class="stack">
      <p class="hint">{T.access.readersHint}</p>
      {readers.length === 0 && <p>{T.access.nobody}</p>}
      {readers.map((one, at) => (
        <section key={at}>
          <h3>{one.title}</h3>
          {one.hint && <p class="hint">{one.hint}</p>}
          <AccessTable endpoints={one.endpoints} />
        </section>
      ))}
    </div>
  );
}
