// A certified OpenID provider whose tokens are access tokens: its access tokens by client credentials, another set of its
// keys, and its end. Run as: node issuer.mjs PROGRAM FOLDER
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { createWriteStream, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import Provider from "oidc-provider";

const [program, folder] = process.argv.slice(2);
const RESOURCE = "https://logs.example.com/";
const PRIVATE = "private-token-of-the-issuer-test";

/** A private key as the provider takes it. */
function key(kid, alg) {
  const { privateKey } =
    alg === "ES256"
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid, alg, use: "sig" };
}

/** The provider with these keys; its address stays the same. */
function provider(issuer, keys, algorithm) {
  return new Provider(issuer, {
    jwks: { keys },
    clients: [
      {
        client_id: "dashboard",
        client_secret: "secret-of-the-dashboard",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: algorithm,
      },
    ],
    scopes: ["logs:read"],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => RESOURCE,
        getResourceServerInfo: () => ({
          scope: "logs:read",
          audience: "tidegate",
          accessTokenTTL: 600,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: algorithm } },
        }),
      },
    },
    // Who asks by client credentials is the client itself.
    extraTokenClaims: () => ({ org: { project: "p1" } }),
    formats: {
      customizers: { jwt: (_, token, parts) => void (parts.payload.sub ??= token.clientId) },
    },
  });
}

async function token(issuer) {
  const answer = await fetch(`${issuer}/token`, {
    method: "POST",
    headers: { authorization: `Basic ${btoa("dashboard:secret-of-the-dashboard")}` },
    body: new URLSearchParams({ grant_type: "client_credentials", scope: "logs:read", resource: RESOURCE }),
  });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  const header = JSON.parse(Buffer.from(body.access_token.split(".")[0], "base64url"));
  assert.equal(header.typ, "at+jwt");
  return { text: body.access_token, header };
}

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
let handler;
const http = createServer((request, response) => handler(request, response));
await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${http.address().port}`;
const [first, second] = [key("first", "ES256"), key("second", "RS256")];
handler = provider(issuer, [first], "ES256").callback();

writeFileSync(
  join(folder, "tidegate.toml"),
  `[[issuer]]
name = "oidc"
issuer = "${issuer}"
keys = { discover = true }
audience = "tidegate"
type = "at+jwt"
fetch_pause = "1 s"

[[issuer.rule]]
when = { "/scope" = "logs:read" }
scopes = "query:endpoint:logs.all"
pin = { project = "/org/project" }
`,
);
const log = join(folder, "service.log");
writeFileSync(log, "");
const server = spawn(
  program,
  ["serve", "--listen", "127.0.0.1:0", "--data-dir", join(folder, "data"), "--config", join(folder, "tidegate.toml")],
  { env: { PATH: process.env.PATH, TIDEGATE_PRIVATE_ACCESS_TOKEN: PRIVATE }, stdio: ["ignore", "pipe", "pipe"] },
);
const file = createWriteStream(log, { flags: "a" });
server.stdout.pipe(file);
server.stderr.pipe(file);

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
async function until(what, holds) {
  for (const end = Date.now() + 30_000; Date.now() < end; await sleep(50)) {
    const found = await holds();
    if (found) return found;
  }
  assert.fail(`${what}: not within 30 seconds\n${readFileSync(log, "utf8")}`);
}

try {
  const url = await until("it listens", () => {
    const address = /address=(\S+)/.exec(readFileSync(log, "utf8"));
    return address && `http://${address[1]}`;
  });
  const ids = async (token) => {
    const answer = await fetch(`${url}/api/endpoints/query/logs.all`, { headers: { authorization: `Bearer ${token}` } });
    const body = await answer.json();
    return answer.status === 200 ? body.result.map((row) => row.id).join() : `${answer.status} ${body.error.message}`;
  };
  const events = ["p1", "p2"].map((project) => ({ id: `of-${project}`, project, event_message: "x" }));
  const sent = await fetch(`${url}/api/logs?source_name=cloudflare.logs.prod`, {
    method: "POST",
    headers: { "x-api-key": PRIVATE, "content-type": "application/json" },
    body: JSON.stringify(events),
  });
  assert.equal(sent.status, 200, await sent.text());

  const early = await token(issuer);
  assert.deepEqual([early.header.alg, early.header.kid], ["ES256", "first"]);
  assert.equal(await ids(early.text), "of-p1");

  // Both keys are published, and the new one signs.
  await sleep(1_100);
  handler = provider(issuer, [second, first], "RS256").callback();
  const late = await token(issuer);
  assert.deepEqual([late.header.alg, late.header.kid], ["RS256", "second"]);
  assert.equal(await ids(late.text), "of-p1");
  assert.equal(await ids(early.text), "of-p1");

  // The provider is gone; its tokens are not.
  await new Promise((resolve) => {
    http.close(resolve);
    http.closeAllConnections();
  });
  assert.equal(await ids(late.text), "of-p1");
  const forged = late.text.split(".");
  forged[1] = Buffer.from(JSON.stringify({ iss: issuer, aud: "tidegate", sub: "x" })).toString("base64url");
  assert.match(await ids(forged.join(".")), /^401 .*signature$/);
} catch (error) {
  console.error(readFileSync(log, "utf8"));
  throw error;
} finally {
  server.kill("SIGTERM");
  await new Promise((resolve) => server.once("exit", resolve));
}
