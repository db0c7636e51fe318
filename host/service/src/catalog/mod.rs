//! The service's own tables in the catalog: endpoints with their versions, alerts, tokens and the deny list.
//!
//! They lie in the database of the store, so that a backup and a copy have all of one moment, and the store makes them with
//! its schema. What they mean is nobody's business but the service's. A method is one transaction, on the connection that
//! the store hands out ([`Catalog::lock`](tidegate_store::Catalog::lock)); it blocks for a moment, so async code calls it on a
//! thread that may block. Errors are those of the database, apart from what a method names.

#![expect(clippy::disallowed_methods, reason = "the one place with statements over the service's tables")]

mod alert_messages;
#[cfg(test)]
mod alert_tests;
mod alerts;
mod denied;
mod endpoints;
#[cfg(test)]
mod tests;
mod tokens;

pub use alert_messages::{AlertMessage, AlertMessageTable};
pub use alerts::{AlertRecord, AlertState, AlertTable, NewAlert, RunOutcome, is_due};
pub use denied::{DenialTable, DeniedRecord};
pub use endpoints::{EndpointEntry, EndpointRecord, EndpointTable, NewVersion};
pub use tokens::{TokenRecord, TokenTable};

type Result<T> = std::result::Result<T, tidegate_store::StoreError>;
