//! Syslog over TCP and TLS: connections on which messages come in one after the other, and nothing is answered.
//!
//! - `message`: the parts of a message; `structured_data`, `rfc5424`, `rfc3164`: its formats; `record`: its event;
//! - `frames`: cutting a stream into messages.

pub(super) mod frames;
pub(super) mod message;
mod record;
mod rfc3164;
pub(super) mod rfc5424;
mod structured_data;
