//! The ways in which logs come in: protocols over HTTP, and syslog.
//!
//! All protocols take the same steps: authenticate the sender, find the source that the request head names, and only then
//! read the body; split it into events; store the valid events and report the others. Accepted events are on stable
//! storage before the request is answered. Nothing here knows how connections are served: `tidegate-http` hands over the head and
//! the body of a request, and sends the [`Answer`]. What is needed of the service is a [`DoorService`].
//!
//! - `service`: what is needed of the service;
//! - `elements`, `text`, `wire`: reading JSON and Protocol Buffers piece by piece; `nanoseconds`: times;
//! - `body`, `body_parts`, `body_memory`: reading a body, and the memory budget for all bodies;
//! - `batch`: the events of one source;
//! - `events`, `intake`: the parts of the steps; `credentials`: where the token stands; `key`: the idempotency key;
//! - `receive`: the steps; `door`: what a protocol adds to them; `answer`, `logged`: what is told;
//! - `syslog`: messages over TCP and TLS, without HTTP;
//! - `protocols`: the doors; `routes`: which door is at which path;
//! - `dry_run`: reading without storing, for the fuzz target.

mod answer;
mod batch;
mod body;
mod body_memory;
mod body_parts;
mod credentials;
mod door;
mod dry_run;
mod elements;
mod events;
mod intake;
mod key;
mod logged;
mod nanoseconds;
mod protocols;
mod receive;
mod routes;
mod service;
mod syslog;
mod text;
mod wire;

pub use answer::Answer;
pub use body::IncomingBody;
pub use body_memory::{BodyMemory, BodyReservation};
pub use door::Methods;
pub use dry_run::{BodyContent, body_forms, read_body};
pub use routes::{Route, routes, shows_token, start};
pub use service::{Counted, DoorService};
pub use syslog::{Syslog, SyslogContent, SyslogError, read_syslog};
