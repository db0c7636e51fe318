//! What a run found and what became of a message, as it is stored and shown.

use chrono::{DateTime, SecondsFormat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use tidegate_model::Failure;

/// A time in microseconds as text.
pub(super) fn iso(micros: i64) -> Option<String> {
    DateTime::from_timestamp_micros(micros).map(|time| time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

/// What a run of an alert found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlertRun {
    /// When the endpoint was asked.
    #[schemars(extend("format" = "date-time"))]
    pub at: Option<String>,
    /// How long the answer took.
    pub milliseconds: u64,
    /// Whether the condition held; null if the run failed.
    pub holds: Option<bool>,
    /// The number of rows; null if the run failed.
    pub rows: Option<usize>,
    /// What was compared: the number of rows, or of the column the value for which the condition holds, else the first.
    pub value: Option<Number>,
    /// Why it failed.
    pub error: Option<RunError>,
    /// The occurrence that goes on, or that the run ended.
    pub occurrence: Option<String>,
    /// The message that it made.
    #[schemars(extend("enum" = ["firing", "resolved", null]))]
    pub message: Option<String>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RunError {
    /// A word for programs.
    pub code: String,
    /// What is wrong.
    pub message: String,
}

impl From<&Failure> for RunError {
    fn from(failure: &Failure) -> Self {
        let message = crate::failures::text(failure).chars().take(1_000).collect();
        Self { code: failure.code.name().to_owned(), message }
    }
}

/// What became of an attempt to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AlertDelivery")]
pub struct Delivery {
    /// When it began.
    #[schemars(extend("format" = "date-time"))]
    pub at: Option<String>,
    /// The state in the message.
    #[schemars(extend("enum" = ["firing", "resolved", "test"]))]
    pub state: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Whether the receiver confirmed it, with a status from 200 to 299.
    pub delivered: bool,
    /// Whether it is not tried again.
    pub given_up: bool,
    /// The status that the receiver answered.
    pub status: Option<u16>,
    /// Why there is no status.
    pub error: Option<String>,
    /// How long it took.
    pub milliseconds: u64,
}
