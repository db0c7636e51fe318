// How an endpoint is called: its address, and the same request in several languages.
import type { EndpointInfo } from "../api/document";
import { curl, javascript, python, url } from "../query/snippets";
import { T } from "../text";
import { Snippet } from "../ui/parts";

export function Calls({ name, info }: { name: string; info: EndpointInfo | undefined }) {
  // A caller fills in what is required.
  const parameters = Object.fromEntries((info?.parameters ?? []).filter((one) => one.required).map((one) => [one.name, one.preset || one.choices[0] || one.name.toUpperCase()]));
  return (
    <div class="stack">
      <p class="hint">{T.endpoints.callsHint}</p>
      <Snippet label={T.endpoints.address} text={url(name)} />
      <Snippet label="curl" text={curl(name, parameters)} />
      <Snippet label="JavaScript" text={javascript(name, parameters)} />
      <Snippet label="Python" text={python(name, parameters)} />
    </div>
  );
}
