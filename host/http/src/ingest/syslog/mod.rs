//! Syslog over TCP and TLS: connections on which messages come in one after the other, and nothing is answered.
//!
//! - `listener`: accepting connections; `connection`: reading one;
//! - `batch`: the messages that wait to be stored; `sender`: who sends them, and where they go;
//! - `refusal`: what is not kept;
//! - `message`: the parts of a message; `structured_data`, `rfc5424`, `rfc3164`: its formats; `record`: its event;
//! - `frames`: cutting a stream into messages.

mod batch;
mod connection;
pub(super) mod frames;
mod listener;
pub(super) mod message;
mod record;
mod refusal;
mod rfc3164;
pub(super) mod rfc5424;
mod sender;
mod structured_data;

pub use listener::{Syslog, SyslogError};
