// What the component of an endpoint with code is: what it can do, how large it is, and what made it.
import type { Schemas } from "../api/client";
import { bytes } from "../result/format";
import { T } from "../text";

export function Component({ component, digest, author }: { component: Schemas["Component"]; digest: string | undefined; author: string | undefined }) {
  const facts: [string, string][] = [
    [T.endpoints.component.world, component.world ?? ""],
    [T.endpoints.component.imports, component.imports?.join(", ") ?? ""],
    [T.endpoints.component.size, bytes(component.bytes)],
    [T.endpoints.component.memory, component.initial_memory === undefined ? "" : bytes(component.initial_memory)],
    [T.endpoints.component.tools, component.tools.map((tool) => `${tool.name} ${tool.version}`.trim()).join(", ")],
    [T.endpoints.component.author, author ?? ""],
    [T.endpoints.component.digest, digest ?? ""],
  ];
  return (
    <section>
      <h2>{T.endpoints.component.title}</h2>
      <table class="list">
        <tbody>
          {facts.filter(([, value]) => value !== "").map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td><code>{value}</code></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
