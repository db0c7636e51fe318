// The address of a view: everything behind the # of the address, which browsers do not send to the server.
import { computed, signal } from "@preact/signals";

export interface Route {
  /** The parts of the path, decoded. */
  path: string[];
  query: URLSearchParams;
}

function read(): string {
  return location.hash.replace(/^#\/?/, "");
}

const hash = signal(read());
/** How often an address was gone to, by a link or by the browser's buttons. */
export const visits = signal(0);
addEventListener("hashchange", () => {
  hash.value = read();
  visits.value += 1;
});

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = computed<Route>(() => {
  const [path = "", query = ""] = hash.value.split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
});

/** The address of a view, for links. */
export function address(path: string[], query?: Record<string, string>): string {
  const text = query ? new URLSearchParams(query).toString() : "";
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(path: string[], query?: Record<string, string>): void {
  location.hash = address(path, query);
}

/** Changes the address of the view that is shown. As a step, the browser's button goes back before it. */
export function rewrite(path: string[], query: Record<string, string>, asStep: boolean): void {
  const changed = address(path, query);
  if (asStep && location.hash !== changed) history.pushState(null, "", changed);
  else history.replaceState(null, "", changed);
}
