// What stands above the editor of Explore: the language, the time range, run and cancel, and what is done with the view.
import { isAbort, json, messageOf, segment, type Schemas } from "../api/client";
import { isPrivate } from "../api/session";
import { draft } from "../endpoints/draft";
import { curl } from "../query/snippets";
import { overGrants } from "../query/sqlText";
import { download } from "../result/run";
import { go } from "../route";
import { T } from "../text";
import { Menu, copyText } from "../ui/parts";
import { forget, history } from "./history";
import * as state from "./state";
import { TimeRange } from "./TimeRange";

const FORMATS = ["json", "ndjson", "csv", "arrow"];

function changeMode(mode: state.Mode): void {
  const first = state.endpoint.value?.tables?.[0] ?? "";
  if (mode === "lql" && state.mode.value !== "lql") state.text.value = firstLql(first);
  if (mode === "sql" && state.mode.value !== "sql") state.text.value = state.firstQuery(first, state.tables.value.get(first));
  state.mode.value = mode;
  if (mode === "saved") void state.start();
}

/** The clauses that a table begins with. Without columns, LQL gives only the fields that clauses name. */
function firstLql(table: string): string {
  const known = state.tables.value.get(table)?.map((column) => column.name) ?? [];
  const from = (state.endpoint.value?.tables?.length ?? 0) > 1 ? [`f:${table}`] : [];
  return [...from, ...["timestamp", "event_message", "metadata"].filter((name) => known.includes(name)).map((name) => `s:${name}`), ""].join(" ");
}

export function Toolbar() {
  const modes: state.Mode[] = state.endpoint.value?.tables ? ["sql", "lql", "saved"] : ["saved"];
  const save = (format: string): void => {
    const isHere = state.here();
    download(state.endpointName.value, state.withText(state.asked()), format).catch((error: unknown) => {
      if (isHere() && !isAbort(error)) state.failure.value = messageOf(error);
    });
  };
  return (
    <div class="toolbar">
      <div class="segmented" role="group" aria-label={T.explore.language}>
        {modes.map((mode) => (
          <button key={mode} type="button" aria-pressed={state.mode.value === mode} onClick={() => changeMode(mode)}>
            {T.explore.modes[mode]}
          </button>
        ))}
      </div>
      {state.bounds.value && <TimeRange value={state.range.value} onChange={(value) => ((state.range.value = value), void state.start())} />}
      <button type="button" class="primary" disabled={state.missing.value.length > 0} onClick={() => void state.start()} title={T.explore.runKeys}>
        {T.explore.run}
      </button>
      <button type="button" disabled={!state.running.value} onClick={state.cancel}>{T.explore.cancel}</button>
      <button type="button" class="live-toggle" aria-pressed={state.isLive.value} disabled={state.missing.value.length > 0} onClick={() => state.setLive(!state.isLive.value)} title={T.live.keys}>
        <i aria-hidden="true" />
        {T.live.toggle}
      </button>
      <span class="spacer" />
      {isPrivate.value && state.mode.value === "sql" && <button type="button" onClick={() => void keep()}>{T.explore.keep}</button>}
      <Menu title={T.explore.history} label={T.explore.history} align="right">
        {(close) =>
          history.value.length === 0 ? (
            <p class="hint">{T.explore.noHistory}</p>
          ) : (
            <div class="history">
              {history.value.map((entry) => (
                <button key={entry.address + entry.text} type="button" class="menu-item" onClick={() => (open(entry.address), close())}>
                  <b>{entry.endpoint}</b> <code>{(entry.text || T.explore.modes.saved).replace(/\s+/g, " ").slice(0, 120)}</code>
                </button>
              ))}
              <button type="button" class="menu-item" onClick={() => (forget(), close())}>{T.explore.forget}</button>
            </div>
          )
        }
      </Menu>
      <Menu title={T.explore.share} label={T.explore.share} align="right">
        {(close) => (
          <>
            <button type="button" class="menu-item" onClick={() => (void copyText(state.link()), close())}>{T.explore.copyLink}</button>
            <button type="button" class="menu-item" onClick={() => (void copyText(state.isLive.value ? curl(state.endpointName.value, state.askedLive(), true) : curl(state.endpointName.value, state.withText(state.asked()))), close())}>{T.explore.copyCurl}</button>
          </>
        )}
      </Menu>
      <Menu title={T.explore.download} label={T.explore.download} align="right">
        {(close) => FORMATS.map((format) => <button key={format} type="button" class="menu-item" onClick={() => (save(format), close())}>{T.explore.formats[format]}</button>)}
      </Menu>
    </div>
  );
}

/** Begins an endpoint with the query: the granted tables of this one, and the statement over them. */
async function keep(): Promise<void> {
  const isHere = state.here();
  const text = state.text.value;
  try {
    const from = await json<Schemas["Endpoint"]>(`/api/endpoints/${segment(state.endpointName.value)}`);
    if (!isHere()) return;
    const query = overGrants(from.query ?? "", text);
    if (query === null) throw new Error(T.explore.cannotKeep);
    draft.value = { name: "", description: "", query, parameters: from.parameters, max_limit: 1000, cache_duration_seconds: 0, proactive_requerying_seconds: null, sandboxable: false, redact_pii: from.redact_pii };
    go(["endpoints", "new", "endpoint"]);
  } catch (error) {
    if (isHere() && !isAbort(error)) state.failure.value = messageOf(error);
  }
}

function open(address: string): void {
  const query = new URLSearchParams(address.split(/\?(.*)/s)[1] ?? "");
  state.take(query);
  void state.start();
}
