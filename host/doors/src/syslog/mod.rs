//! Syslog over TCP and TLS: connections on which messages come in one after the other, and nothing is answered.
//!
//! - `listener`: accepting connections; `connection`: reading one;
//! - `batch`: the messages that wait to be stored; `sender`: who sends them, and where they go;
//! - `stream`: how a sender is told of the end; `refusal`: what is not kept;
//! - `message`: the parts of a message; `structured_data`, `rfc5424`, `rfc3164`: its formats; `record`: its event;
//! - `unreadable`: why a message is not read;
//! - `frames`: cutting a stream into messages;
//! - `dry_run`: reading without storing, for the fuzz target.

mod batch;
mod connection;
mod dry_run;
pub(super) mod frames;
mod listener;
pub(super) mod message;
mod record;
mod refusal;
mod rfc3164;
pub(super) mod rfc5424;
mod sender;
mod stream;
mod structured_data;
mod unreadable;

pub use dry_run::{SyslogContent, read_syslog};
pub use listener::{Syslog, SyslogError};
