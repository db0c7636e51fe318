//! How an endpoint is saved, as the query string says it, and the answer to that.

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::access_report::Widened;
use tidegate_service::registration::Saved;

use super::endpoint_view::saved_shown;

/// The query string of a route that saves.
#[derive(Deserialize)]
pub(crate) struct Saving {
    make_sources: Option<String>,
    refuse_wider: Option<String>,
    strict: Option<String>,
}

impl Saving {
    /// Whether sources that are named and not there are made.
    pub(super) fn make_sources(&self) -> Result<bool, Failure> {
        flag("make_sources", self.make_sources.as_deref())
    }

    /// Whether a change is refused through which tokens read more than before.
    pub(super) fn refuse_wider(&self) -> Result<bool, Failure> {
        flag("refuse_wider", self.refuse_wider.as_deref())
    }

    /// Whether a change with warnings is refused.
    pub(super) fn strict(&self) -> Result<bool, Failure> {
        flag("strict", self.strict.as_deref())
    }
}

/// A flag of the query string.
pub(super) fn flag(name: &str, sent: Option<&str>) -> Result<bool, Failure> {
    match sent {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Failure::new(Code::InvalidParameter, format!("{name} is true or false")).about(name)),
    }
}

/// The JSON of an endpoint that was just saved, with what its author is told and what that widens among its warnings.
pub(super) async fn saved_and_widened(service: &Service, saved: &Saved) -> Result<Value, Failure> {
    let mut shown = saved_shown(service, &saved.endpoint).await?;
    add_warnings(&mut shown, saved.remarks.iter().map(ToString::to_string));
    warn(&mut shown, &saved.widened);
    Ok(shown)
}

/// Adds what a change widens to the warnings of an answer.
pub(super) fn warn(shown: &mut Value, widened: &Widened) {
    add_warnings(shown, widened.lines().into_iter());
}

fn add_warnings(shown: &mut Value, more: impl Iterator<Item = String>) {
    let Some(fields) = shown.as_object_mut() else { return };
    if let Value::Array(warnings) = fields.entry("warnings").or_insert_with(|| Value::Array(Vec::new())) {
        warnings.extend(more.map(Value::from));
    }
}
