// The parameters of an endpoint as a form, a line each.
import type { Schemas } from "../api/client";
import { T } from "../text";
import { Icon } from "../ui/Icon";
import { Field, Toggle } from "../ui/parts";

type Parameter = Schemas["Parameter"];
const KINDS: NonNullable<Parameter["kind"]>[] = ["text", "int64", "float64", "boolean", "timestamp", "json", "bytes"];

export function ParameterList({ parameters, onChange }: { parameters: Parameter[]; onChange: (parameters: Parameter[]) => void }) {
  const set = (at: number, change: Partial<Parameter>): void => onChange(parameters.map((one, index) => (index === at ? { ...one, ...change } : one)));
  return (
    <fieldset>
      <legend>{T.parameters.title}</legend>
      {parameters.length === 0 && <p class="hint">{T.parameters.none}</p>}
      {parameters.map((one, at) => (
        <div class="parameter" key={at} role="group" aria-label={T.parameters.one(one.name)}>
          <Field label={T.parameters.name}>{(id) => <input id={id} value={one.name} spellcheck={false} onInput={(event) => set(at, { name: event.currentTarget.value })} />}</Field>
          <Field label={T.parameters.kind}>
            {(id) => (
              <select id={id} value={one.kind ?? "text"} onChange={(event) => set(at, { kind: event.currentTarget.value as NonNullable<Parameter["kind"]> })}>
                {KINDS.map((kind) => <option key={kind}>{kind}</option>)}
              </select>
            )}
          </Field>
          <Toggle label={T.parameters.required} value={one.required ?? false} onChange={(required) => set(at, { required })} />
          <Field label={T.parameters.preset}>{(id) => <input id={id} value={one.default ?? ""} onInput={(event) => set(at, { default: event.currentTarget.value === "" ? undefined : event.currentTarget.value })} />}</Field>
          <Field label={T.parameters.description}>{(id) => <input id={id} value={one.description ?? ""} onInput={(event) => set(at, { description: event.currentTarget.value })} />}</Field>
          <button type="button" class="danger" aria-label={T.parameters.remove(one.name)} onClick={() => onChange(parameters.filter((_, index) => index !== at))}><Icon name="close" /></button>
        </div>
      ))}
      <div class="actions">
        <button type="button" class="small" onClick={() => onChange([...parameters, { name: "", kind: "text", required: false }])}>{T.parameters.add}</button>
      </div>
    </fieldset>
  );
}
