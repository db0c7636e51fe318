//! Alerts: endpoints that are asked on a schedule, and what is sent when a condition begins to hold.
//!
//! - `evaluation`: whether a condition holds for an answer, and which rows are sent;
//! - `occurrence`: what follows from that for the state of an alert, and which message is made;
//! - `message`: the body of a message, and its signature;
//! - `report`: what a run found and what became of a message, as it is stored and shown;
//! - `sender`: one attempt to send a message, to a checked address;
//! - `schedule`: when an alert is run next, and when a message is tried again;
//! - `counters`: what happened since the start;
//! - `in_use`: endpoints, hosts and messages that are busy;
//! - `state`: all of that together, [`Alerts`];
//! - `records`: the alerts as those who manage them see them;
//! - `runs`: one run;
//! - `deliveries`: one attempt to send a message;
//! - `clock_step`: what is done after the clock went back;
//! - `engine`: runs and sends what is due.
//!
//! The catalog has the state. A run is written in one transaction with the message that it makes, and a message stays there
//! until it is confirmed. So a receiver gets each message at least once: twice only if the server ended after the
//! receiver had confirmed it and before that was written, and then with the same occurrence.
//!
//! An alert has no token. It may query its endpoint and nothing else, as somebody with the scope of that endpoint: the limits of
//! the endpoint and its redaction hold. Its parameters are those of the manifest, which only a private token can save.

mod clock_step;
mod counters;
mod deliveries;
mod engine;
mod evaluation;
mod in_use;
mod message;
mod occurrence;
mod records;
mod report;
mod runs;
mod schedule;
mod sender;
mod state;
#[cfg(test)]
mod tests;

pub use counters::AlertCounts;
pub(crate) use engine::work;
pub use records::{AlertStates, KnownAlert};
pub use report::{AlertRun, Delivery, RunError};
pub use state::Alerts;
