//! The plain types that every room speaks: endpoint manifests, parameters, values, limits and
//! the failure that a request can end in.
//!
//! This room does no work and depends on no engine, so that the compiler, the runtime and the
//! server can agree on words without knowing each other.

mod failure;
mod limit_set;
mod limits;
mod manifest;
mod parameter;
mod settings;
mod value;

pub use failure::{Code, Failure, Position, nearest};
pub use limit_set::LimitSet;
pub use limits::{Limits, TextLimits};
pub use manifest::{EndpointName, MOST_PARAMETERS, Manifest, ManifestError, Settings};
pub use parameter::{Arguments, Format, Parameter, parse_timestamp, whole_word};
pub use settings::{Access, LIMITS, Part, Section, Setting, SettingError, Unit};
pub use settings::{GIB, HOUR, KIB, MIB, milliseconds, number, size};
pub use value::{Kind, Value};

/// The hidden field of every stored record: true wherever the record is there. Whether a record
/// is there could be told from any of its leaves' definition levels, but only by an engine that
/// knows; with a leaf of its own, any engine reads and prunes it like every other column, and it
/// costs next to nothing because it never varies. No event can have a field of this name in a
/// nested object: such values are kept in the overflow.
pub const PRESENCE_FIELD: &str = "_present";
