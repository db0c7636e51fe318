//! With which status errors of queries are answered: a choice for clients that read errors only from answers
//! that succeeded.

use serde::{Deserialize, Serialize};

/// With which status errors of queries are answered. The server, an endpoint and a token may each say it; the token's
/// word counts before the endpoint's, and that before the server's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Errors {
    /// With their own, and what is wrong as an object.
    #[default]
    Status,
    /// With status 200, `"result": null` and what is wrong as a text.
    Ok,
}

impl Errors {
    /// What can be chosen, for a person.
    pub const CHOICES: &str = "\"status\" or \"ok\"";

    /// The choice as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Ok => "ok",
        }
    }

    /// The choice that is written like this, if there is one.
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
