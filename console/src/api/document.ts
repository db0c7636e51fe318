// The endpoints that the token may query, as the server's own OpenAPI document describes them to this token.
import { signal } from "@preact/signals";
import { json } from "./client";

/** A parameter of an endpoint, as callers see it. */
export interface ParameterInfo {
  name: string;
  required: boolean;
  /** The token decides its value. */
  pinned: boolean;
  description: string;
  type: string;
  isTime: boolean;
  choices: string[];
  preset: string;
}

export interface EndpointInfo {
  name: string;
  description: string;
  parameters: ParameterInfo[];
  /** The tables of ad-hoc queries; null where the endpoint takes none. */
  tables: string[] | null;
}

interface Described {
  paths: Record<string, { get?: Operation }>;
}
interface Operation {
  tags?: string[];
  summary?: string;
  description?: string;
  "x-tidegate-tables"?: string[];
  parameters?: Partial<{ name: string; in: string; required: boolean; description: string; schema: Schema; "x-tidegate-pinned": boolean }>[];
}
interface Schema {
  type?: string;
  format?: string;
  anyOf?: { format?: string }[];
  enum?: unknown[];
  default?: unknown;
}

/** All endpoints; null until they are read. */
export const endpoints = signal<EndpointInfo[] | null>(null);

let newest = 0;

/** Reads the endpoints. An answer that is overtaken by a later one, or by the end of the session, is dropped. */
export async function loadEndpoints(): Promise<void> {
  const own = (newest += 1);
  const document = await json<Described>("/api/openapi");
  const found = Object.values(document.paths)
    .map((path) => path.get)
    .filter((operation): operation is Operation => operation?.tags?.includes("endpoints") ?? false)
    .map(described);
  if (own === newest) endpoints.value = found;
}

/** Reads the endpoints anew after a change. Where that fails, those that are known stay. */
export const reloadEndpoints = (): void => void loadEndpoints().catch(() => undefined);

function described(operation: Operation): EndpointInfo {
  const own = (operation.parameters ?? []).filter((parameter) => parameter.in === "query" && parameter.name !== undefined);
  return {
    name: operation.summary ?? "",
    description: operation.description ?? "",
    tables: operation["x-tidegate-tables"] ?? null,
    parameters: own.map(({ name = "", required = false, description = "", schema = {}, ...rest }) => ({
      name,
      required,
      pinned: rest["x-tidegate-pinned"] ?? false,
      description,
      type: schema.type ?? "string",
      isTime: schema.format === "date-time" || (schema.anyOf ?? []).some((one) => one.format === "date-time"),
      choices: (schema.enum ?? []).map(String),
      preset: schema.default === undefined ? "" : String(schema.default),
    })),
  };
}

/** The two parameters that bound the time of the rows, where an endpoint has such. */
export function timeBounds(endpoint: EndpointInfo | undefined): { start: string; end: string } | null {
  const times = endpoint?.parameters.filter((parameter) => parameter.isTime && !parameter.pinned) ?? [];
  const start = times.find((one) => /(^|_)(start|from|since|after|begin)($|_)/i.test(one.name));
  const end = times.find((one) => /(^|_)(end|to|until|before)($|_)/i.test(one.name));
  return start && end ? { start: start.name, end: end.name } : null;
}
