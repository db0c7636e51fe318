//! What Tidegate does, without HTTP.
//!
//! A [`service::Service`] is opened over a data folder. It registers endpoints ([`registration`]), runs requests to them
//! ([`execution`]) and encodes their answers ([`answer`]). The [`workbench`] runs one endpoint over given logs on an
//! author's machine, with the same code. The crate `tidegate-http` makes a service reachable.
//!
//! Modules use each other downwards only; `service` and `workbench` are at the top, and above `service` what it does with what comes
//! in (`ingest`), with queries ([`queries`]) and with what is managed (`management`).

pub mod access_report;
mod account;
mod address_limits;
pub mod admission;
pub mod alerts;
pub mod answer;
mod blocking;
pub mod cache;
pub mod catalog;
mod clock;
pub mod cluster_options;
mod component_kinds;
mod compute;
mod deadline;
pub mod door_options;
mod endpoint_columns;
mod endpoints;
mod engines;
pub mod execution;
pub mod failures;
mod fair_share;
pub mod follow;
mod gate;
mod in_turn;
mod ingest;
mod inspection;
pub mod issuer_options;
pub mod issuers;
mod management;
mod missing_sources;
pub mod networks;
pub mod options;
mod outbound;
mod outcomes;
mod packs;
pub mod queries;
pub mod rate;
pub mod redact;
pub mod registration;
pub mod registry;
mod save_request;
mod seed;
pub mod service;
pub mod settings;
mod signature_algorithm;
mod standard_sources;
mod start_error;
mod supposed;
pub mod syslog_options;
mod tables;
pub mod tokens;
mod turns;
pub mod workbench;

pub use account::{Account, Identity};
pub use address_limits::{AddressLimits, AnonymousConnection};
pub use blocking::{BLOCKING_BYTES, blocking, off_connections, to_its_end};
pub use clock::Clock;
pub use component_kinds::{ComponentKind, ComponentKinds};
pub use compute::Compute;
pub use endpoint_columns::ColumnPlanner;
pub use endpoints::Endpoints;
pub use fair_share::{FairShare, Permits, Share, UsedUp};
pub use inspection::inspect;
pub use missing_sources::meanings;
pub use options::{Options, PackEndpoint, PackSource};
pub use outcomes::ComponentOutcomes;
pub use save_request::SaveRequest;
pub use service::Service;
pub use signature_algorithm::Algorithm;
pub use start_error::StartError;
pub use tidegate_cluster::StatementReport;
