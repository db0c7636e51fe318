// The same request in the words of other tools. The token is never in them: they read it from the environment.
import type { Parameters } from "../result/run";

const quoted = (text: string): string => `'${text.replace(/'/g, "'\\''")}'`;
const filled = (parameters: Parameters): [string, string][] => Object.entries(parameters).filter(([, value]) => value !== "");

export function url(endpoint: string): string {
  return `${location.origin}/api/endpoints/query/${encodeURIComponent(endpoint)}`;
}

/** With `isLive`, the request follows the query. */
export function curl(endpoint: string, parameters: Parameters, isLive = false): string {
  const lines = filled(parameters).map(([name, value]) => ` \\\n  --data-urlencode ${quoted(`${name}=${value}`)}`);
  return `curl ${isLive ? "-N -sG -H \"Accept: text/event-stream\"" : "-sG"} -H "X-API-KEY: $TIDEGATE_TOKEN" ${quoted(url(endpoint))}${lines.join("")}`;
}

export function javascript(endpoint: string, parameters: Parameters): string {
  const fields = filled(parameters).map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)},\n`);
  return `const query = new URLSearchParams({\n${fields.join("")}});\nconst response = await fetch(\`${url(endpoint)}?\${query}\`, {\n  headers: { "X-API-KEY": process.env.TIDEGATE_TOKEN },\n});\nif (!response.ok) throw new Error((await response.json()).error.message);\nconst { result } = await response.json();\nconsole.table(result);`;
}

export function python(endpoint: string, parameters: Parameters): string {
  const fields = filled(parameters).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},\n`);
  return `import os\nimport requests\n\nresponse = requests.get(\n    ${JSON.stringify(url(endpoint))},\n    headers={"X-API-KEY": os.environ["TIDEGATE_TOKEN"]},\n    params={\n${fields.map((line) => `    ${line}`).join("")}    },\n)\nresponse.raise_for_status()\nfor row in response.json()["result"]:\n    print(row)`;
}
