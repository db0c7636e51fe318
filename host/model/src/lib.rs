//! The plain types that every room speaks: endpoint manifests, parameters, values, limits and
//! the failure that a request can end in.
//!
//! This room does no work and depends on no engine, so that the compiler, the runtime and the
//! server can agree on words without knowing each other.

mod errors;
mod failure;
mod limit_set;
mod limits;
mod manifest;
mod parameter;
mod settings;
mod value;

pub use errors::Errors;
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
/// costs next to nothing because it never varies. See [`HIDDEN_FIELDS`].
pub const PRESENCE_FIELD: &str = "_present";

/// The hidden field of a stored record, or column of a source, that holds, as the text of a JSON object, the
/// fields of the record or event that have no column of their own. It is there only where there have been such
/// fields.
pub const REST_FIELD: &str = "_overflow_fields";

/// The hidden field of a stored record that holds, as JSON, a value that stood in the place of the record
/// and is none (`"err": "text"` where `err` is a record elsewhere). It is there only where that happened.
pub const UNLIKE_FIELD: &str = "_overflow_value";

/// The names of the hidden fields of stored records. No event can have a field of such a name in a column:
/// its value is kept with the fields that have none.
pub const HIDDEN_FIELDS: [&str; 3] = [PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD];
