// The service under test, as the JavaScript clients' checks see it.
import assert from "node:assert/strict";

const env = (name) => process.env[name] ?? assert.fail(`${name} is not set: run cargo xtask clients`);

export const url = env("TIDEGATE_URL");
export const ingestToken = env("TIDEGATE_PUBLIC_ACCESS_TOKEN");
const privateToken = env("TIDEGATE_PRIVATE_ACCESS_TOKEN");

/** The rows of an ad-hoc query over the tables of logs.all, for one project. */
export async function rows(project, sql) {
  const query = new URLSearchParams({ project, sql });
  const answer = await fetch(`${url}/api/endpoints/query/logs.all?${query}`, { headers: { "X-API-KEY": privateToken } });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body.result;
}

/** The rows once there are `count`: clients send in the background. At most 30 seconds. */
export async function rowsOnceThere(project, sql, count) {
  const end = Date.now() + 30_000;
  for (;;) {
    const found = await rows(project, sql);
    if (found.length >= count || Date.now() > end) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
