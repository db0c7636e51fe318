// The console's own modules, compiled for the tests that need no browser. JSX is told of here: what runs them may have no tsconfig.json.
import { after } from "node:test";

const vite = await (await import(new URL("../node_modules/vite/dist/node/index.js", import.meta.url))).createServer({ root: new URL("..", import.meta.url).pathname, server: { middlewareMode: true, hmr: false, ws: false }, appType: "custom", logLevel: "error", optimizeDeps: { noDiscovery: true }, oxc: { jsx: { runtime: "automatic", importSource: "preact" } } });
globalThis.localStorage ??= { getItem: () => null, setItem: () => undefined, removeItem: () => undefined };
globalThis.sessionStorage ??= { getItem: () => null, setItem: () => undefined, removeItem: () => undefined };
after(() => vite.close());

/** A module by its path below the folder. */
export const load = (path) => vite.ssrLoadModule(path);
