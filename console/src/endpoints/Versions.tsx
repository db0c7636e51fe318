// The versions of an endpoint: what each changed, and the way back.
import { useState } from "preact/hooks";
import { isOvertaken, json, messageOf, onlyIf, segment, tagged, type Schemas } from "../api/client";
import { reloadEndpoints } from "../api/document";
import { Diff } from "../editor/Lazy";
import { ago, time } from "../result/format";
import { T } from "../text";
import { Alert, Tabs } from "../ui/parts";
import { useAction, useLoaded } from "../ui/load";
import type { Read } from "./draft";
import type { EndpointRecord } from "../api/records";

type Version = Schemas["EndpointVersion"];
type Against = "before" | "current";

/** What of a version is compared, as a text. */
function written(version: Version | undefined): string {
  if (!version) return "";
  const { query, id: _id, version: _version, author: _author, inserted_at: _at, digest, kind, ...settings } = version;
  const lines = Object.entries(settings).map(([name, value]) => `${name}: ${JSON.stringify(value, null, name === "parameters" ? 2 : 0)}`);
  return `${query ?? ""}\n\n${lines.join("\n")}${kind === "wasm" ? `\ncomponent: ${digest}` : ""}`;
}

export function Versions({ read: { record, tag }, onSaved, onNewer }: { read: Read; onSaved: (saved: Read) => void; onNewer: () => void }) {
  const path = `/api/endpoints/${segment(record.name)}/versions`;
  const { value, error } = useLoaded((signal) => json<Version[]>(path, { signal }), [path, record.version]);
  const [chosen, setChosen] = useState(record.version);
  const [against, setAgainst] = useState<Against>("before");
  const [problem, setProblem] = useState<string | null>(null);
  const version = value?.find((one) => one.version === chosen);
  const isCurrent = chosen === record.version;
  const other = isCurrent || against === "before" ? value?.find((one) => one.version < chosen) : value?.find((one) => one.version === record.version);
  const { busy, act } = useAction();
  const restore = (): void => {
    setProblem(null);
    act(
      async () => {
        const { value, tag: newest } = await tagged<EndpointRecord>(`${path}/${chosen}/restore`, { method: "POST", headers: onlyIf(tag) });
        reloadEndpoints();
        onSaved({ record: value, tag: newest });
        return value.version;
      },
      (restored) => {
        setChosen(restored);
      },
      (failure) => {
        setProblem(messageOf(failure));
        if (isOvertaken(failure)) onNewer();
      },
    );
  };
  if (error) return <Alert message={error} />;
  return (
    <div class="versions">
      <ol>
        {value?.map((one) => (
          <li key={one.version}>
            <button type="button" aria-pressed={one.version === chosen} onClick={() => setChosen(one.version)}>
              <b>{T.endpoints.version(one.version)}</b> {one.version === record.version && <span class="tag">{T.endpoints.current}</span>}
              <div class="hint" title={one.inserted_at ? time(Date.parse(one.inserted_at)) : ""}>{one.inserted_at ? ago(Date.parse(one.inserted_at)) : ""} · {one.author}</div>
            </button>
          </li>
        ))}
      </ol>
      <div class="stack">
        {!isCurrent && (
          <div class="actions">
            <Tabs label={T.endpoints.compare} chosen={against} onChoose={setAgainst} tabs={[{ name: "before", title: T.endpoints.compareBefore }, { name: "current", title: T.endpoints.compareCurrent }]} />
            <span class="spacer" />
            <button type="button" class="primary" disabled={busy} onClick={restore}>{T.endpoints.restore(chosen)}</button>
          </div>
        )}
        {problem && <Alert message={problem} />}
        <h2>{other ? T.endpoints.changes(other.version, chosen) : T.endpoints.first}</h2>
        {version && <Diff before={written(other)} after={written(version)} label={T.endpoints.compare} />}
      </div>
    </div>
  );
}
