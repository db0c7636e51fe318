//! `GET /api/openapi`: this service and each saved endpoint in OpenAPI 3.1.
//!
//! What does not depend on saved endpoints follows from the types that handlers read and write (`schemas`), and from lists of
//! the routes. What is saved (endpoints, their parameters, the columns of their queries), no macro over Rust types can see:
//! that is written as JSON.
//!
//! - `page`: the route; `state`: what it keeps (`row_schemas`, `fixed_document`);
//! - `document`: the whole document;
//! - `route`: a fixed route; `request_routes`, `door_routes` and `management_routes`: all of them;
//! - `schemas`: what they take and answer;
//! - `components`: the refusals and parameters beside them, and what responses with rows have in common;
//! - `endpoints`: an operation for each saved endpoint;
//! - `answers`: what the endpoints answer, planned at most once a minute;
//! - `columns`: the schema of a row.
//!
//! Callers without a token get the fixed routes. Names and parameters of endpoints are shown to tokens that may query
//! them.

mod answers;
mod columns;
mod components;
mod document;
mod door_routes;
mod endpoints;
mod fixed_document;
mod management_routes;
pub(crate) mod page;
mod request_routes;
mod route;
mod row_schemas;
mod schemas;
mod state;

pub(crate) use state::OpenApi;
