// One row as a tree of its values, with what can be done with each of them.
import { useMemo, useState } from "preact/hooks";
import { dotted, type Path, sqlPath } from "./path";
import { T } from "../text";
import { Icon } from "../ui/Icon";
import { copyText, CopyButton } from "../ui/parts";
import { fieldOf, inUtc, text, toJson } from "./format";
import { recordOf, type Result, type Type, type Value } from "./types";

/** The most characters of a value that are in the page, and how many values of a list or record are shown at a time. */
const MOST_CHARACTERS = 10_000;
const AT_A_TIME = 200;

export interface Actions {
  /** Adds a condition to the query; absent where there is no query to add to. */
  filter?: (path: Path, value: Value, type: Type, exclude: boolean) => void;
}

export function Detail({ result, row, onClose, onMove, actions }: { result: Result; row: number; onClose: () => void; onMove: (row: number) => void; actions: Actions }) {
  const [nulls, setNulls] = useState(false);
  const whole = (): string => JSON.stringify(Object.fromEntries(result.columns.map((column, at) => [column.name, toJson(result.cell(row, at), column.type)])), null, 2);
  return (
    <aside class="detail" aria-label={T.detail.title} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <header>
        <h2>{T.detail.row(row + 1, result.rows)}</h2>
        <button type="button" class="small" disabled={row === 0} onClick={() => onMove(row - 1)} aria-label={T.detail.previous}><Icon name="up" /></button>
        <button type="button" class="small" disabled={row + 1 >= result.rows} onClick={() => onMove(row + 1)} aria-label={T.detail.next}><Icon name="down" /></button>
        <CopyButton text={whole} label={T.detail.copyJson} />
        <button type="button" class="small" onClick={onClose} aria-label={T.detail.close}><Icon name="close" /></button>
      </header>
      <div class="detail-tree" tabIndex={0} role="region" aria-label={T.detail.values}>
        {result.columns.map((column, at) => (
          <Node key={column.name} name={column.name} value={result.cell(row, at)} type={column.type} path={{ column: column.name, steps: [] }} nulls={nulls} actions={actions} />
        ))}
        <label class="toggle">
          <input type="checkbox" checked={nulls} onChange={(event) => setNulls(event.currentTarget.checked)} />
          <span>{T.detail.nulls}</span>
        </label>
      </div>
    </aside>
  );
}

interface NodeProps {
  name: string;
  value: Value;
  type: Type;
  path: Path;
  nulls: boolean;
  actions: Actions;
}

function Node({ name, value, type, path, nulls, actions }: NodeProps) {
  if (value === null && !nulls) return null;
  const record = recordOf(type);
  // A record of logs is a list of one object, shown as that object.
  if (type.kind === "list" && record && Array.isArray(value) && value.length === 1) {
    return <Branch name={name} entries={fieldsOf(value[0] ?? null, record, { ...path, steps: [...path.steps, { element: 0, ofRecords: true }] })} nulls={nulls} actions={actions} />;
  }
  if (type.kind === "record" && typeof value === "object" && value !== null) return <Branch name={name} entries={fieldsOf(value, type, path)} nulls={nulls} actions={actions} />;
  if (type.kind === "list" && Array.isArray(value) && type.item) {
    const item = type.item;
    const entries = value.map((one, at) => ({ name: `[${at}]`, value: one, type: item, path: { ...path, steps: [...path.steps, { element: at, ofRecords: record !== null }] } }));
    return <Branch name={`${name} [${value.length}]`} entries={entries} nulls={nulls} actions={actions} />;
  }
  return <Leaf name={name} value={value} type={type} path={path} actions={actions} />;
}

type Entry = Pick<NodeProps, "name" | "value" | "type" | "path">;

function fieldsOf(value: Value, type: Type, path: Path): Entry[] {
  return (type.fields ?? []).map((field) => ({ name: field.name, value: fieldOf(value, field.name), type: field.type, path: { ...path, steps: [...path.steps, { field: field.name }] } }));
}

function Branch({ name, entries, nulls, actions }: { name: string; entries: Entry[]; nulls: boolean; actions: Actions }) {
  const [most, setMost] = useState(AT_A_TIME);
  const shown = nulls ? entries : entries.filter((entry) => entry.value !== null);
  return (
    <details open class="branch">
      <summary>{name}</summary>
      {shown.slice(0, most).map((entry) => (
        <Node key={entry.name} {...entry} nulls={nulls} actions={actions} />
      ))}
      {shown.length > most && <button type="button" class="small" onClick={() => setMost(most + AT_A_TIME)}>{T.detail.more(Math.min(AT_A_TIME, shown.length - most))}</button>}
    </details>
  );
}

function Leaf({ name, value, type, path, actions }: Omit<NodeProps, "nulls">) {
  const whole = useMemo(() => (value === null ? "NULL" : text(value, type)), [value, type, inUtc.value]);
  const named = dotted(path);
  return (
    <div class="leaf">
      <span class="leaf-name" title={`${named} ${type.name}`}>{name}</span>
      <span class={`leaf-value kind-${type.kind} ${value === null ? "null" : ""}`}>{whole.slice(0, MOST_CHARACTERS)}</span>
      {whole.length > MOST_CHARACTERS && <span class="hint leaf-cut">{T.detail.cut(whole.length - MOST_CHARACTERS)}</span>}
      <span class="leaf-actions">
        {actions.filter && (
          <>
            <button type="button" title={T.detail.filter} aria-label={T.detail.filterOf(named)} onClick={() => actions.filter?.(path, value, type, false)}><Icon name="plus" /></button>
            <button type="button" title={T.detail.exclude} aria-label={T.detail.excludeOf(named)} onClick={() => actions.filter?.(path, value, type, true)}><Icon name="minus" /></button>
          </>
        )}
        <button type="button" title={T.detail.copyPath} aria-label={T.detail.copyPathOf(named)} onClick={() => void copyText(sqlPath(path))}>{"{}"}</button>
        <button type="button" title={T.detail.copyValue} aria-label={T.detail.copyValueOf(named)} onClick={() => void copyText(whole)}><Icon name="copy" /></button>
      </span>
    </div>
  );
}
