// The field of one parameter of an endpoint: a choice, a text, or the value that the token fixes.
import type { ParameterInfo } from "../api/document";
import { access } from "../api/session";
import { T } from "../text";
import { Field } from "../ui/parts";

export function ParameterField({ parameter, value, onChange, onRun }: { parameter: ParameterInfo; value: string; onChange: (value: string) => void; onRun?: () => void }) {
  if (parameter.pinned) {
    return (
      <Field label={parameter.name} hint={T.explore.pinned}>
        {(id) => <input id={id} value={access.value?.pinned?.[parameter.name] ?? ""} readOnly class="pinned" />}
      </Field>
    );
  }
  const hint = parameter.description;
  return (
    <Field label={parameter.name + (parameter.required ? " *" : "")} hint={hint}>
      {(id) =>
        parameter.choices.length > 0 || parameter.type === "boolean" ? (
          <select id={id} value={value} onChange={(event) => (onChange(event.currentTarget.value), onRun?.())}>
            {(!parameter.required || value === "") && <option value="">{T.explore.anyValue}</option>}
            {(parameter.choices.length > 0 ? parameter.choices : ["true", "false"]).map((choice) => <option key={choice}>{choice}</option>)}
          </select>
        ) : (
          <input id={id} value={value} required={parameter.required} placeholder={parameter.isTime ? (parameter.preset || "2026-01-31T12:00:00Z, now-5m") : parameter.preset} spellcheck={false} autocomplete="off" onInput={(event) => onChange(event.currentTarget.value)} onKeyDown={(event) => event.key === "Enter" && onRun?.()} />
        )
      }
    </Field>
  );
}
