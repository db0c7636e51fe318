// The window of time that an alert asks for: one until each run, or other times.
import { useState } from "preact/hooks";
import type { EndpointInfo } from "../api/document";
import { ParameterField } from "../query/ParameterField";
import { windowInWords, WINDOWS } from "../query/window";
import { T } from "../text";
import { Field } from "../ui/parts";
import { windowOfAlert } from "./alertWords";

type Values = Record<string, string>;

export function AlertWindow({ info, bounds, values, onChange }: { info: EndpointInfo; bounds: { start: string; end: string }; values: Values; onChange: (values: Values) => void }) {
  const own = info.parameters.filter((one) => one.name === bounds.start || one.name === bounds.end);
  const end = own.find((one) => one.name === bounds.end);
  const window = windowOfAlert(values, bounds);
  const isUnset = !values[bounds.start] && !values[bounds.end];
  const [isOther, setOther] = useState(window === null && !isUnset);
  const choose = (chosen: string): void => {
    setOther(chosen === "other");
    if (chosen === "other") return;
    const { [bounds.start]: _start, [bounds.end]: _end, ...others } = values;
    if (chosen === "") onChange(others);
    // The end is the run itself, where the endpoint does not insist on being told one.
    else onChange({ ...others, [bounds.start]: chosen, ...(end?.required || end?.preset ? { [bounds.end]: "now" } : {}) });
  };
  const offered = window === null || WINDOWS.includes(window) ? WINDOWS : [window, ...WINDOWS];
  return (
    <>
      <Field label={T.alerts.window} hint={T.alerts.windowHint}>
        {(id) => (
          <select id={id} value={isOther ? "other" : (window ?? "")} onChange={(event) => choose(event.currentTarget.value)}>
            <option value="">{T.alerts.windowUnset}</option>
            {offered.map((one) => <option key={one} value={one}>{T.alerts.windowOf(windowInWords(one) ?? one)}</option>)}
            <option value="other">{T.alerts.windowOther}</option>
          </select>
        )}
      </Field>
      {isOther && own.map((one) => <ParameterField key={one.name} parameter={one} value={values[one.name] ?? ""} onChange={(value) => onChange({ ...values, [one.name]: value })} />)}
    </>
  );
}
