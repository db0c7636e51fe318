//! The service: HTTP in front of endpoints and ingest.
//!
//! A request's way is readable in `query`: authenticate, find the endpoint, check the
//! parameters, run its component over its grants, cap and redact and encode the rows. Failures of
//! every room become an HTTP answer in one place, `failure`.

mod admission;
mod admit;
mod answer;
mod app;
mod auth;
mod bound;
mod cache;
mod clock;
mod compute;
mod connection;
mod demand;
mod doors;
mod errors;
mod execute;
mod failure;
mod load;
mod lql;
mod manage;
mod metrics;
mod new_token;
mod observe;
mod openapi;
mod opening;
pub mod options;
mod paced;
mod packs;
mod parameters;
mod query;
mod rate;
mod ready;
mod recheck;
pub mod redact;
mod registry;
mod routes;
mod scopes;
mod seed;
mod serve;
pub mod settings;
mod statements;
mod tables;
mod tls;
mod tokens;
mod traces;
mod turns;
mod unread;
mod vet;
pub mod workbench;

pub use app::{App, Options, StartError};
pub use new_token::NewToken;
pub use opening::Door;
pub use packs::PackEndpoint;
pub use serve::serve;
pub use tls::{Tls, TlsError};
pub use tokens::{NOTICED, NewTokens, generate_token};
pub use traces::Traces;
