// The console's own modules, compiled for the tests that need no browser.
import { after } from "node:test";

const vite = await (await import(new URL("../node_modules/vite/dist/node/index.js", import.meta.url))).createServer({ root: new URL("..", import.meta.url).pathname, server: { middlewareMode: true, hmr: false, ws: false }, appType: "custom", logLevel: "error", optimizeDeps: { noDiscovery: true } });
globalThis.localStorage ??= { getItem: () => null, setItem: () => undefined };
globalThis.sessionStorage ??= { getItem: () => null, setItem: () => undefined, removeItem: () => undefined };
after(() => vite.close());

/** A module by its path below the folder. */
export const load = (path) => vite.ssrLoadModule(path);
