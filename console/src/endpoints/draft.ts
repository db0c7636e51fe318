// An endpoint that another page begins: a query of Explore becomes a saved one.
import { signal } from "@preact/signals";
import type { Schemas } from "../api/client";

export const draft = signal<Schemas["NewEndpoint"] | null>(null);
