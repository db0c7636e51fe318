//! Limits that an endpoint or an access token sets for its own requests.
//!
//! They have the names and the forms of the configuration of the server ([`LIMITS`]), and can only lower a limit: a
//! request may use the smallest of what the server, its endpoint and its token allow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, json};

use crate::settings::{Access, Setting, SettingError, Unit, find};
use crate::{LIMITS, Limits};

/// Limits of the server as a whole, which cannot be set here: what all requests together may use, and what is read
/// before it is known whose request it is.
const OF_SERVER: [&str; 5] = ["total_memory", "text_bytes", "tokens", "nesting", "relations"];

/// Some limits of one request, by the names of [`LIMITS`]. Serialized as a map of names to values with units (`"5 s"`,
/// `"16 MiB"`); a plain number is accepted where the unit is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitSet(BTreeMap<&'static str, u64>);

impl LimitSet {
    /// No limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the limits that can be set here, in the order of [`LIMITS`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        settable().map(|setting| setting.name)
    }

    /// Sets a limit from text and replaces an earlier value.
    ///
    /// # Errors
    /// An unknown name (with the nearest one), a limit of the whole server, a text that cannot be parsed, a number
    /// outside the bounds of the configuration.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        if OF_SERVER.contains(&name) {
            let names: Vec<_> = Self::names().collect();
            let message = format!(
                "{name} is a limit of the whole server and is set in its configuration; here there are {}",
                names.join(", ")
            );
            return Err(SettingError::Contradiction(message));
        }
        let setting = find(LIMITS, "limits", name)?;
        let mut read = Limits::default();
        setting.set(&mut read, text)?;
        if let Some((_, value)) = number(setting, &read) {
            self.0.insert(setting.name, value);
        }
        Ok(())
    }

    /// All limits that may differ between requests, with the values that they have here.
    pub fn of(limits: &Limits) -> Self {
        Self(settable().filter_map(|setting| Some((setting.name, number(setting, limits)?.1))).collect())
    }

    /// The limits that are set, each with its value as text.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        settable().filter_map(|setting| {
            let value = self.0.get(setting.name)?;
            let (unit, _) = number(setting, &Limits::default())?;
            Some((setting.name, unit.show(*value)))
        })
    }
}

fn settable() -> impl Iterator<Item = &'static Setting<Limits>> {
    LIMITS.iter().filter(|setting| !OF_SERVER.contains(&setting.name))
}

/// The unit and the value of a limit; all limits are numbers.
fn number(setting: &Setting<Limits>, limits: &Limits) -> Option<(Unit, u64)> {
    match setting.access {
        Access::Number { unit, get, .. } => Some((unit, get(limits))),
        Access::Flag { .. } | Access::Text { .. } | Access::List { .. } => None,
    }
}

impl Limits {
    /// These limits, each lowered to the value in the set. A higher value in the set has no effect.
    #[must_use]
    pub fn lowered_by(&self, set: &LimitSet) -> Self {
        let mut lowered = self.clone();
        for setting in LIMITS {
            if let (Some(most), Access::Number { get, set: write, .. }) = (set.0.get(setting.name), &setting.access)
                && *most < get(&lowered)
            {
                write(&mut lowered, *most);
            }
        }
        lowered
    }

    /// The values of the limits that may differ between requests, always in the same order. Requests with equal values
    /// have equal limits.
    pub fn of_request(&self) -> impl Iterator<Item = u64> {
        settable().filter_map(|setting| number(setting, self).map(|(_, value)| value))
    }
}

impl fmt::Display for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.iter().map(|(name, text)| format!("{name}={text}")).collect();
        f.write_str(&all.join(", "))
    }
}

impl Serialize for LimitSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl JsonSchema for LimitSet {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let of = |setting: &Setting<Limits>| {
            (setting.name.to_owned(), json!({"type": ["string", "integer"], "minimum": 0, "description": setting.what}))
        };
        json_schema!({
            "type": "object",
            "description": "What one request may use, where that is less than the server's limits: a number, or a text with its \
                            unit such as \"5 s\" or \"16 MiB\".",
            "properties": settable().map(of).collect::<Map<_, _>>(),
            "additionalProperties": false,
        })
    }
}

/// The accepted forms of a limit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a limit is a text such as \"5 s\" or \"16 MiB\", or a whole number")]
enum Written {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for LimitSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut limits = Self::new();
        for (name, written) in BTreeMap::<String, Written>::deserialize(deserializer)? {
            let text = match written {
                Written::Number(number) => number.to_string(),
                Written::Text(text) => text,
            };
            limits.set(&name, &text).map_err(D::Error::custom)?;
        }
        Ok(limits)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn set(limits: &[(&str, &str)]) -> LimitSet {
        let mut set = LimitSet::new();
        for (name, text) in limits {
            set.set(name, text).unwrap();
        }
        set
    }

    #[test]
    fn what_is_of_the_server_is_known_and_the_rest_can_be_set() {
        for name in OF_SERVER {
            assert!(find(LIMITS, "limits", name).is_ok(), "{name}");
            assert!(LimitSet::new().set(name, "100").unwrap_err().to_string().contains("whole server"), "{name}");
        }
        assert_eq!(LimitSet::names().count() + OF_SERVER.len(), LIMITS.len());
        for setting in settable() {
            let text = setting.show(&Limits::default());
            assert_eq!(set(&[(setting.name, &text)]).iter().collect::<Vec<_>>(), [(setting.name, text)]);
        }
    }

    #[test]
    fn limits_are_lowered_and_never_raised() {
        let server = Limits { rows: 100, ..Limits::default() };
        let lowered = server.lowered_by(&set(&[("rows", "500"), ("request_time", "50 ms"), ("statements", "1")]));
        assert_eq!((lowered.rows, lowered.wall_clock, lowered.statements), (100, Duration::from_millis(50), 1));
        assert_eq!(Limits { wall_clock: server.wall_clock, statements: server.statements, ..lowered }, server);
        for setting in settable() {
            let Access::Number { unit, least, most, .. } = setting.access else { unreachable!("limits are numbers") };
            let down = set(&[(setting.name, &unit.show(least))]);
            let up = set(&[(setting.name, &unit.show(most))]);
            let (defaults, lowered) = (Limits::default(), Limits::default().lowered_by(&down));
            assert_eq!(setting.show(&lowered), unit.show(least), "{}", setting.name);
            assert_eq!(defaults.lowered_by(&up), defaults, "{}", setting.name);
            assert_eq!(lowered.lowered_by(&up), lowered, "{}", setting.name);
            let differs = defaults.of_request().zip(lowered.of_request()).filter(|(a, b)| a != b);
            assert_eq!(differs.count(), 1, "{}", setting.name);
        }
    }

    #[test]
    fn mistakes_are_told_as_in_the_configuration() {
        for (name, text, words) in [
            ("row", "1", "did you mean rows?"),
            ("rows", "0", "from 1 to 10000"),
            ("request_time", "5", "\"30 s\""),
            ("component_memory", "1 TiB", "64 MiB"),
        ] {
            let message = LimitSet::new().set(name, text).unwrap_err().to_string();
            assert!(message.contains(words), "{name} = {text}: {message}");
        }
    }

    #[test]
    fn a_set_is_written_as_it_is_read() {
        let written = r#"{"rows":"500","request_time":"5000 ms","component_memory":16777216}"#;
        let read: LimitSet = serde_json::from_str(written).unwrap();
        assert_eq!(
            serde_json::to_string(&read).unwrap(),
            r#"{"request_time":"5 s","rows":"500","component_memory":"16 MiB"}"#
        );
        assert_eq!(serde_json::from_str::<LimitSet>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
        for wrong in [r#"{"rows":-1}"#, r#"{"rows":[]}"#, r#"{"rows":1.5}"#, r#"{"rowz":1}"#, "[]", "5"] {
            assert!(serde_json::from_str::<LimitSet>(wrong).is_err(), "{wrong}");
        }
    }
}
