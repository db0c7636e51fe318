//! `GET /api/openapi`: this service and each saved endpoint in OpenAPI 3.1.
//!
//! Most of the document depends on what is saved (endpoints, their parameters, the columns of their queries), which no
//! macro over Rust types can see. So all of it is written as JSON:
//!
//! - `page`: the route;
//! - `document`: the whole document;
//! - `routes`: the fixed routes, one table; `door_routes`: those at which events come in by other protocols;
//! - `alert_routes`: those of alerts;
//! - `follow_routes`: what following a query adds to its routes;
//! - `schemas`: what they take and answer;
//! - `endpoints`: an operation for each saved endpoint;
//! - `answers`: what the endpoints answer, planned at most once a minute;
//! - `columns`: the schema of a row.
//!
//! Callers without a token get the fixed routes. Names and parameters of endpoints are shown to tokens that may query
//! them.

mod alert_routes;
mod answers;
mod columns;
mod document;
mod door_routes;
mod endpoints;
mod follow_routes;
pub(crate) mod page;
mod routes;
mod schemas;

pub(crate) use columns::RowSchemas;
