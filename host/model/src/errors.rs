//! The status of error answers: a choice for clients that read the reason of an error only from answers with status
//! 200.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The status with which errors of queries are answered. The server, an endpoint and a token may each choose; the
/// choice of the token takes precedence over that of the endpoint, and that over that of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Errors {
    /// The status of the error; the body has the error as an object.
    #[default]
    Status,
    /// Status 200, `"result": null`, and the error as a text.
    Ok,
}

impl Errors {
    /// The choices, for a person.
    pub const CHOICES: &str = "\"status\" or \"ok\"";

    /// The choice as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Ok => "ok",
        }
    }

    /// The choice with this name, if there is one.
    pub fn named(text: &str) -> Option<Self> {
        [Self::Status, Self::Ok].into_iter().find(|choice| choice.name() == text)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_written_the_same_everywhere() {
        for choice in [Errors::Status, Errors::Ok] {
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(json, format!("\"{}\"", choice.name()));
            assert_eq!(serde_json::from_str::<Errors>(&json).unwrap(), choice);
            assert_eq!(Errors::named(choice.name()), Some(choice));
            assert!(Errors::CHOICES.contains(&json));
        }
        assert_eq!([Errors::named("OK"), Errors::named("")], [None; 2]);
    }
}
