// The side bar of Explore: the endpoint, its parameters, its tables with their fields.
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../api/client";
import { endpoints } from "../api/document";
import { ParameterField } from "../query/ParameterField";
import { count } from "../result/format";
import type { Value } from "../result/types";
import { tokens } from "../sqlText";
import { T } from "../text";
import { Alert, Field, styled } from "../ui/parts";
import { filterLql, filterRowsSql } from "../result/path";
import { columnsOf, type Example, type FieldStatistics, statisticsOf, type TableStatistics } from "./fields";
import * as state from "./state";

/** The most fields of a table that are listed. */
const MOST_FIELDS = 500;

export function Sidebar({ onTable }: { onTable: (table: string) => void }) {
  const endpoint = state.endpoint.value;
  const times = state.bounds.value;
  const shown = endpoint?.parameters.filter((one) => one.name !== times?.start && one.name !== times?.end) ?? [];
  return (
    <div class="sidebar-body">
      <Field label={T.explore.endpoint} hint={endpoint?.description}>
        {(id) => (
          <select id={id} value={state.endpointName.value} onChange={(event) => choose(event.currentTarget.value)}>
            {(endpoints.value ?? []).map((one) => (
              <option key={one.name} value={one.name}>{one.name}</option>
            ))}
          </select>
        )}
      </Field>
      {shown.map((one) => (
        <ParameterField key={one.name} parameter={one} value={state.parameters.value[one.name] ?? ""} onChange={(value) => state.edit({ parameters: { ...state.parameters.value, [one.name]: value } })} onRun={() => void ask()} />
      ))}
      <h2>{T.explore.tables}</h2>
      {endpoint?.tables === null && <p class="hint">{T.explore.noAdhoc}</p>}
      {endpoint?.tables?.length === 0 && <p class="hint">{T.explore.noTables}</p>}
      {endpoint?.tables?.map((table) => <Table key={`${endpoint.name} ${table}`} name={table} onTable={onTable} />)}
    </div>
  );
}

export function choose(name: string): void {
  state.leaveText();
  state.clear();
  state.endpointName.value = name;
  const endpoint = state.endpoint.value;
  // Values go along where the other endpoint has the same parameter.
  const kept = state.parameters.value;
  state.parameters.value = Object.fromEntries((endpoint?.parameters ?? []).map((one) => [one.name, kept[one.name] || one.preset || (one.required ? (one.choices[0] ?? "") : "")]));
  const tables = endpoint?.tables ?? [];
  state.mode.value = tables.length > 0 ? "sql" : "saved";
  const last = tables.length > 0 ? state.lastText(name, "sql") : undefined;
  if (last === undefined) return void begin(tables[0]);
  state.text.value = last;
  void state.start();
}

/** Runs what is asked; the first time, with the columns of the table, which could not be known without the parameters. */
async function ask(): Promise<void> {
  await (isUntouched() ? begin(state.endpoint.value?.tables?.[0]) : state.start());
}

/** Whether the query is the one that a table begins with before its columns are known. */
export function isUntouched(): boolean {
  const first = state.endpoint.value?.tables?.[0];
  return first !== undefined && state.mode.value === "sql" && state.text.value === state.firstQuery(first, undefined);
}

/** Begins with the newest rows of a table, by its columns. */
export async function begin(table: string | undefined, asStep = true): Promise<void> {
  state.text.value = table === undefined ? "" : state.firstQuery(table, state.tables.value.get(table));
  if (table === undefined || state.missing.value.length > 0) return state.start(asStep);
  if (!state.tables.value.has(table)) {
    const isSame = state.unchanged();
    const columns = await state.columnsKnown(table);
    // What was written or begun meanwhile is what is wanted now.
    if (!isSame()) return;
    state.text.value = state.firstQuery(table, columns.length > 0 ? columns : undefined);
  }
  await state.start(asStep);
}

function Table({ name, onTable }: { name: string; onTable: (table: string) => void }) {
  const [open, setOpen] = useState(false);
  const [found, setFound] = useState<TableStatistics | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [filter, setFilter] = useState("");
  const wanted = state.missing.value.length === 0;
  useEffect(() => {
    if (!open || found || !wanted) return;
    let isOpen = true;
    const endpoint = state.endpointName.value;
    const read = async (): Promise<void> => {
      const parameters = state.asked();
      const columns = await columnsOf(endpoint, parameters, name);
      if (!isOpen || state.endpointName.value !== endpoint) return;
      state.tables.value = new Map([...state.tables.value, [name, columns]]);
      const statistics = await statisticsOf(endpoint, parameters, name, columns);
      if (!isOpen) return;
      setFound(statistics);
      setError(null);
    };
    read().catch((failure: unknown) => isOpen && setError(messageOf(failure)));
    return () => {
      isOpen = false;
    };
  }, [open, wanted]);
  const fields = found?.fields.filter((field) => field.path.toLowerCase().includes(filter.toLowerCase())).sort((a, b) => Number(b.filled > 0) - Number(a.filled > 0)) ?? [];
  return (
    <details class="fields" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="fields-name">{name}</span>
      </summary>
      <button type="button" class="small wide" onClick={() => onTable(name)}>{T.explore.queryTable}</button>
      {error && <Alert message={error} />}
      {open && !found && !error && <p class="hint">{wanted ? T.common.loading : T.explore.missing(state.missing.value)}</p>}
      {found && (
        <>
          <input class="small" type="search" placeholder={T.explore.findField} aria-label={T.explore.findField} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
          <p class="hint">{T.explore.sample(found.rows)}</p>
          <ul>
            {fields.slice(0, MOST_FIELDS).map((field) => (
              <li key={field.path}>
                <details>
                  <summary>
                    <span class="field-path" title={field.path}><bdi>{field.path}</bdi></span>
                    <span class="field-type">{field.type.name}</span>
                    <span class="filled" title={T.explore.filled(field.filled, found.rows)}>
                      <i ref={styled({ width: `${found.rows ? (100 * field.filled) / found.rows : 0}%` })} />
                    </span>
                  </summary>
                  <p class="hint">{T.explore.filled(field.filled, found.rows)}</p>
                  {field.examples.map((example) => <Found key={example.text} table={name} field={field} example={example} />)}
                </details>
              </li>
            ))}
          </ul>
          {fields.length > MOST_FIELDS && <p class="hint">{T.explore.moreFields(fields.length - MOST_FIELDS)}</p>}
          {fields.length === 0 && <p class="hint">{T.explore.noField}</p>}
        </>
      )}
      {found && <p class="hint">{count(found.fields.length)} {T.explore.fields}</p>}
    </details>
  );
}

/** The query with the condition that a field of a table has a value; one over that table, where it is of another one. Null where a
 *  condition cannot be written. */
function narrowed(table: string, { at, type }: FieldStatistics, value: Value): string | null {
  if (state.mode.value === "lql") return state.namedTable.value === table ? filterLql(state.text.value, at, value, type, false) : null;
  const isOfTable = tokens(state.text.value).some((token) => token.text.replace(/^`|`$/g, "").toLowerCase() === table.toLowerCase());
  return filterRowsSql(isOfTable ? state.text.value : state.firstQuery(table, state.tables.value.get(table)), at, value, type);
}

/** A value of a field, and in how many rows of the sample it is; a click asks for the rows that have it. */
function Found({ table, field, example }: { table: string; field: FieldStatistics; example: Example }) {
  const { text, value, rows } = example;
  if (value === undefined || state.mode.value === "saved" || !/^(text|number|boolean|timestamp)$/.test(field.type.kind)) return <code>{text}</code>;
  const ask = (): void => {
    const changed = narrowed(table, field, value);
    if (changed === null) {
      state.failure.value = T.detail.noFilter;
      return;
    }
    state.leaveText();
    state.text.value = changed;
    void state.start();
  };
  return (
    <button type="button" class="example" title={T.explore.only(field.path, text)} onClick={ask}>
      <code>{text}</code>{" "}
      <span>{count(rows)}</span>
    </button>
  );
}
