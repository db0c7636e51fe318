//! The plain types that every room speaks: endpoint manifests, parameters, values, limits and
//! the failure that a request can end in.
//!
//! This room does no work and depends on no engine, so that the compiler, the runtime and the
//! server can agree on words without knowing each other.

mod failure;
mod limits;
mod manifest;
mod parameter;
mod value;

pub use failure::{Code, Failure, Position, nearest};
pub use limits::Limits;
pub use manifest::{EndpointName, Manifest, ManifestError, Settings};
pub use parameter::{Arguments, Format, Parameter, parse_timestamp};
pub use value::{Kind, Value};
