// What stands above the editor of Explore: the language, the time range, run and cancel, and what is done with the view.
import { isAbort, json, messageOf, segment, type Schemas } from "../api/client";
import { isPrivate } from "../api/session";
import { beginNew, fieldsOfView } from "../endpoints/draft";
import { curl } from "../query/snippets";
import { overGrants } from "../sqlText";
import { ago, time } from "../result/format";
import { download } from "../result/run";
import { go } from "../route";
import { T } from "../text";
import { Menu, copyText } from "../ui/parts";
import { forget, history } from "./history";
import * as state from "./state";
import { TimeRange } from "./TimeRange";

const FORMATS = ["json", "ndjson", "csv", "arrow"];

function changeMode(mode: state.Mode): void {
  const table = state.endpoint.value?.tables?.[0] ?? "";
  state.changeMode(mode, (next) => (next === "lql" ? firstLql(table) : state.firstQuery(table, state.tables.value.get(table))));
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
                <button key={`${entry.address} ${entry.text} ${entry.at}`} type="button" class="menu-item history-entry" onClick={() => (open(entry.address), close())}>
                  <span class="history-head"><b>{entry.endpoint}</b> <span class="tag">{T.explore.modes[entry.mode as state.Mode] ?? entry.mode}</span> {entry.unrun && <span class="tag warning">{T.explore.unrun}</span>}<span class="hint" title={entry.at ? time(entry.at) : ""}>{entry.at ? ago(entry.at) : ""}</span></span>
                  {entry.text && <code>{entry.text.slice(0, 600)}</code>}
                  {entry.with && <span class="hint">{entry.with}</span>}
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
  const [text, bounds, range] = [state.text.value, state.bounds.value, state.range.value];
  try {
    const from = await json<Schemas["Endpoint"]>(`/api/endpoints/${segment(state.endpointName.value)}`);
    if (!isHere()) return;
    const query = overGrants(from.query ?? "", text);
    if (query === null) throw new Error(T.explore.cannotKeep);
    beginNew(fieldsOfView({ ...from, query }, bounds, range));
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
