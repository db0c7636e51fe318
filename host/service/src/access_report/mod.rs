//! Who reads what: for each token, or for all tokens that may do the same, the endpoints that it may ask, and of each the
//! sources, rows and columns that an answer can come from.
//!
//! - `plans`: the statements of one endpoint, planned for a reader;
//! - `report`: that for all endpoints of a reader, with what else binds an answer;
//! - `compare`: whether a reader reaches more through an endpoint than before;
//! - `widening`: what a change widens, told before it is saved or right after.

mod compare;
mod plans;
mod report;
mod widening;

pub use plans::{Piece, PlannedEndpoint, PlannedPiece, PlannedSource};
pub(crate) use plans::{ReportPlanner, Version};
pub use report::{AccessReports, AdhocText, ClassAccess, EndpointAccess, Redaction};
pub use widening::{Compared, Widened};
