//! The plain types that all crates share: endpoint manifests, parameters, values, limits, settings, and the failure in
//! which a request can end.
//!
//! This crate does no work and depends on no engine. Through it the compiler, the runtime and the server agree on types
//! without knowing each other.

mod alert;
mod code_names;
mod errors;
mod failure;
mod json_fault;
mod json_tree;
mod limit_set;
mod limits;
mod manifest;
mod manifest_error;
mod parameter;
mod relative_time;
mod sender_policy;
mod settings;
mod tenancy;
mod text_condition;
mod value;

pub use alert::{Alert, Comparison, Condition, ConditionError, MOST_ALERTS, Subject, is_alert_name};
pub use errors::Errors;
pub use failure::{Code, Failure, Position, Quota, nearest};
pub use json_fault::json_fault;
pub use json_tree::{EqualKeys, JsonTreeError, json_tree};
pub use limit_set::LimitSet;
pub use limits::{Limits, TextLimits};
pub use manifest::{EndpointName, Manifest, Settings};
pub use manifest_error::ManifestError;
pub use parameter::{Arguments, Format, MOMENTS, MOST_PARAMETERS, Parameter, parse_timestamp, whole_word};
pub use relative_time::RelativeTime;
pub use sender_policy::{NotForSender, SenderPolicy, TenantValue};
pub use settings::{Access, LIMITS, Numeric, Part, Section, Setting, SettingError, Unit};
pub use settings::{GIB, HOUR, KIB, MIB, milliseconds, number, quoted, size};
pub use tenancy::{Audience, KeyPath, NotOfTenant, RowPolicy, SourceTenancy, tenant_number};
pub use text_condition::{TextCondition, indexed_text};
pub use value::{Kind, Value};

/// The hidden field of every stored record: true if the record is there. Parquet could tell that from the definition
/// levels of any leaf, but only an engine that exposes them could use it. As a leaf of its own, every engine reads and
/// prunes it like any other column, and it costs next to nothing, because it never varies. See [`HIDDEN_FIELDS`].
pub const PRESENCE_FIELD: &str = "_present";

/// The hidden field of a stored record, or column of a source, with the fields that have no column of their own, as the
/// text of a JSON object. It exists only if there have been such fields.
pub const REST_FIELD: &str = "_overflow_fields";

/// The hidden field of a stored record with a value, as JSON, that stands in the place of the record and is not one
/// (`"err": "text"` where `err` is otherwise a record). It exists only if that happened.
pub const UNLIKE_FIELD: &str = "_overflow_value";

/// The names of the hidden fields of stored records. A field of an event with such a name gets no column; its value is
/// stored with the fields that have none.
pub const HIDDEN_FIELDS: [&str; 3] = [PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD];
