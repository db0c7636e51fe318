// The page Explore: choose an endpoint, ask, look.
import { useEffect } from "preact/hooks";
import { endpoints } from "../api/document";
import { Editor } from "../editor/Lazy";
import { route, visits } from "../route";
import { T } from "../text";
import { isTaken } from "../ui/Keys";
import { Alert, Empty } from "../ui/parts";
import { Histogram, Results } from "./Results";
import * as live from "./live";
import { begin, choose, isUntouched, Sidebar } from "./Sidebar";
import * as state from "./state";
import { Toolbar } from "./Toolbar";

/** Learns the columns of the tables that a query names, for completion. */
async function learn(name: string, tables: string[]): Promise<void> {
  for (const table of tables) if (state.endpointName.value === name) await state.columnsKnown(table);
}

export function Explore() {
  const query = route.value.query;
  const known = endpoints.value;
  useEffect(() => {
    if (!known || known.length === 0) return;
    // What was written before the page was loaded anew is not run: nobody has asked for that.
    if (state.takeKept()) return;
    if (state.take(query)) {
      const endpoint = state.endpoint.value;
      if (state.mode.value === "sql" && state.text.value === "") {
        const first = endpoint?.tables?.[0];
        if (first === undefined) state.mode.value = "saved";
        void begin(first, false);
      } else {
        void state.start(false);
      }
    } else if (state.endpoint.value === undefined) {
      choose((known.find((one) => (one.tables?.length ?? 0) > 0) ?? known[0])?.name ?? "");
    } else {
      state.keepAddress();
      // Where the page was left before its first query began.
      if (isUntouched() && state.result.value === null && !state.running.value) void begin(state.endpoint.value.tables?.[0], false);
    }
  }, [known, query.toString(), visits.value]);
  const ready = state.missing.value.length === 0;
  const name = state.endpointName.value;
  const text = state.text.value;
  const named = (state.endpoint.value?.tables ?? []).filter((table) => text.includes(table));
  useEffect(() => {
    if (ready) void learn(name, named);
  }, [name, ready, known, named.join("\n")]);
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void state.start();
      } else if (!isTaken(event)) {
        if (event.key === "/") {
          event.preventDefault();
          document.querySelector("[data-editor]")?.shadowRoot?.querySelector<HTMLElement>(".cm-content")?.focus();
        } else if (event.key === "l" && state.missing.value.length === 0) state.setLive(!state.isLive.value);
        else if (event.key === "p" && live.isOn.value) live.pause(!live.isPaused.value);
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  useEffect(() => state.leave, []);

  if (known?.length === 0) return <main class="page" tabIndex={-1}><Empty title={T.explore.noEndpoints}>{T.explore.noEndpointsHint}</Empty></main>;
  const onTable = (table: string): void => {
    state.leaveText();
    state.mode.value = "sql";
    void begin(table);
  };
  const mode = state.mode.value;
  return (
    <main class="explore" tabIndex={-1}>
      <h1 class="hidden">{T.nav.explore}</h1>
      <aside class="sidebar" aria-label={T.explore.sidebar}>
        <details class="sidebar-fold" open={matchMedia("(min-width: 800px)").matches}>
          <summary>{name}</summary>
          <Sidebar onTable={onTable} />
        </details>
      </aside>
      <div class="explore-main">
        <Toolbar />
        {mode !== "saved" && <Editor text={state.text.value} language={mode} label={T.explore.editor} mistakes={state.mistakes.value} tables={state.tables.value} hint={mode === "lql" ? T.explore.lqlHint : T.explore.sqlHint} onChange={(text) => state.edit({ text })} onRun={() => void state.start()} />}
        {known && name !== "" && !state.endpoint.value && <Alert message={T.explore.unknown(name)} />}
        <Histogram />
        <Results />
      </div>
    </main>
  );
}
