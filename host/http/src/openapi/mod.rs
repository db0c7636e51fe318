//! `GET /api/openapi`: this service and each saved endpoint in OpenAPI 3.1.
//!
//! Most of the document depends on what is saved (endpoints, their parameters, the columns of their queries), which no
//! macro over Rust types can see. So all of it is written as JSON:
//!
//! - `page`: the route; `state`: what it keeps;
//! - `document`: the whole document; `fixed_document`: that of callers without a token;
//! - `route`: a fixed route; `request_routes`, `door_routes`, `endpoint_routes`, `alert_routes`, `source_routes`, `token_routes`,
//!   `access_routes`, `issuer_routes` and `operation_routes`: all of them, by subject;
//! - `follow_routes`: what following a query adds to its routes;
//! - `schemas`, `endpoint_schemas`, `worker_schemas`, `explanation_schemas`: what they take and answer;
//! - `components`: the refusals and parameters beside them, and what responses with rows have in common;
//! - `endpoints`: an operation for each saved endpoint;
//! - `answers`: what the endpoints answer, planned at most once a minute;
//! - `columns`: the schema of a row.
//!
//! Callers without a token get the fixed routes. Names and parameters of endpoints are shown to tokens that may query
//! them.

mod access_routes;
mod alert_routes;
mod answers;
mod columns;
mod components;
mod document;
mod door_routes;
mod endpoint_routes;
mod endpoint_schemas;
mod endpoints;
mod explanation_schemas;
mod fixed_document;
mod follow_routes;
mod issuer_routes;
mod operation_routes;
pub(crate) mod page;
mod request_routes;
mod route;
mod schemas;
mod source_routes;
mod state;
mod token_routes;
mod worker_schemas;

pub(crate) use state::OpenApi;
