// What the server keeps, by the names that pages of the console use for it.
import type { Schemas } from "./client";

export type EndpointRecord = Schemas["Endpoint"];
export type SourceRecord = Schemas["Source"];
export type TokenRecord = Schemas["AccessToken"];
export type MadeToken = Schemas["MadeAccessToken"];
