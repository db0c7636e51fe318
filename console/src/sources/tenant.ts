// Whose the rows of a source are, as a line that is typed: keys with the field that holds each, or one word.
import type { Schemas } from "../api/client";

type Tenant = NonNullable<Schemas["SourceFields"]["tenant"]> | null;

export function tenantText(tenant: Schemas["Source"]["tenant"]): string {
  if (tenant === null || tenant === undefined) return "";
  return typeof tenant === "string" ? tenant : Object.entries(tenant).map(([key, path]) => `${key}=${path}`).join(" ");
}

/** What the line says, or the word in it that says nothing. */
export function tenantOf(text: string): { tenant: Tenant } | { wrong: string } {
  const words = text.split(/\s+/).filter(Boolean);
  if (words.length === 0) return { tenant: null };
  if (words.length === 1 && words[0] === "shared") return { tenant: "shared" };
  const keys: Record<string, string> = {};
  for (const word of words) {
    const [key = "", path = ""] = word.split(/=(.*)/s);
    if (key === "" || path === "" || key in keys) return { wrong: word };
    keys[key] = path;
  }
  return { tenant: keys };
}
