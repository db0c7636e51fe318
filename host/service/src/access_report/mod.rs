//! Who reads what: for each token, or for all tokens that may do the same, the endpoints that it may ask, and of each the
//! sources, rows and columns that an answer can come from.
//!
//! - `plans`: the statements of one endpoint, planned for a reader;
//! - `report`: that for all endpoints of a reader, with what else binds an answer;
//! - `readers`: who reads without a stored token: rules of issuers, and alerts;
//! - `compare`: whether a reader reaches more through an endpoint than before;
//! - `changed_rules`: what other rules of issuers widen than those of the last start;
//! - `widened`: what a change widens, for readers;
//! - `widening`: how that is found out, before the change is made.

mod changed_rules;
mod compare;
mod plans;
mod readers;
mod report;
mod widened;
mod widening;

pub use plans::{Piece, PlannedEndpoint, PlannedPiece, PlannedSource};
pub(crate) use plans::{ReportPlanner, Version};
pub use readers::{AccessRule, AlertReader};
pub use report::{AccessReports, AdhocText, AlertAccess, ClassAccess, EndpointAccess, Redaction, RuleAccess};
pub use widened::Widened;
pub use widening::TenancyChange;
