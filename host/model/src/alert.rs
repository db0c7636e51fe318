//! Alerts of an endpoint: their declaration in the manifest, and their condition.
//!
//! They are a part of the manifest, as parameters and settings are, so that they live in `endpoint.toml`, get a version with
//! the endpoint, and are restored with it. The secret that signs their messages is not: it must not be in git.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most alerts that one endpoint may have.
pub const MOST_ALERTS: usize = 20;
/// The longest interval between two runs of an alert, and the longest pause between two messages: a day.
const DAY_MINUTES: u64 = 1_440;
/// The longest address of a receiver, in bytes.
const MAX_URL: usize = 2_048;
/// The longest condition, in bytes.
const MAX_CONDITION: usize = 400;
/// The largest number of a condition. Up to here each integer is a number of its own in `f64`.
const MOST_NUMBER: f64 = 9_007_199_254_740_992.0;

/// An alert: the endpoint is asked on a schedule, and a message is sent when a condition begins to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AlertDefinition")]
pub struct Alert {
    /// The name, unique within the endpoint: letters, digits, `.`, `_`, `-` and inner blanks.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// One line for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The minutes between two runs.
    #[schemars(range(min = 1, max = DAY_MINUTES))]
    pub every_minutes: u64,
    /// When it fires: `rows > 0`, or a column, a comparison (> >= < <= = !=) and a number. It holds for a column if it holds
    /// for the value of any row; NULL does not count.
    #[schemars(with = "String", length(max = MAX_CONDITION))]
    pub condition: Condition,
    /// Where messages are posted to: an `http://` or `https://` address without a user name.
    #[schemars(length(max = MAX_URL))]
    pub url: String,
    /// The parameters with which the endpoint is asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The tenant for which it is asked, as tenant keys and values; without any, it reads the rows of all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tenant: BTreeMap<String, String>,
    /// The least minutes between two messages that it fires.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(max = DAY_MINUTES), extend("default" = 0))]
    pub again_after_minutes: u64,
    /// Whether a message is sent when the condition holds no more.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    #[schemars(extend("default" = true))]
    pub notify_resolved: bool,
    /// Whether it is not run for now.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(extend("default" = false))]
    pub paused: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_true(flag: &bool) -> bool {
    *flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A condition on an answer, as text: `rows > 0` compares the number of rows, `errors >= 10` the column `errors`. A column
/// that is called `rows` stands in backquotes. It holds for a column if it holds for the value of any row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Condition {
    /// What is compared.
    pub subject: Subject,
    /// How.
    pub comparison: Comparison,
    /// With what; finite, and at most 2^53 away from zero.
    pub number: f64,
}

/// What a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The number of rows.
    Rows,
    /// The values of a column, of which one is enough.
    Column(String),
}

/// A comparison with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `!=`
    Different,
}

impl Comparison {
    /// Whether it holds for a value that is so ordered to the number of the condition.
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Equal => order.is_eq(),
            Self::Different => order.is_ne(),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
            Self::Different => "!=",
        }
    }
}

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no condition of an alert: write rows > 0, or a column, a comparison (> >= < <= = !=) and a number")]
pub struct ConditionError(String);

impl TryFrom<String> for Condition {
    type Error = ConditionError;

    fn try_from(text: String) -> Result<Self, ConditionError> {
        let shown: String = text.chars().take(MAX_CONDITION).collect();
        let error = || ConditionError(shown.clone());
        if text.len() > MAX_CONDITION || text.chars().any(char::is_control) {
            return Err(error());
        }
        // From the right, because the name of a column may have any sign.
        let digits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
        let rest = text.trim_end().trim_end_matches(digits);
        let number = text.get(rest.len()..).unwrap_or_default().trim_end();
        let number: f64 = number.parse().map_err(|_| error())?;
        if !number.is_finite() || number.abs() > MOST_NUMBER {
            return Err(error());
        }
        let rest = rest.trim_end();
        let all = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            ("!=", Comparison::Different),
            ("<>", Comparison::Different),
            (">", Comparison::Greater),
            ("<", Comparison::Less),
            ("==", Comparison::Equal),
            ("=", Comparison::Equal),
        ];
        let found = all.iter().find_map(|(sign, comparison)| Some((rest.strip_suffix(sign)?, *comparison)));
        let (name, comparison) = found.ok_or_else(error)?;
        let name = name.trim();
        let quoted = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        let subject = match quoted.unwrap_or(name) {
            "" => return Err(error()),
            name if quoted.is_none() && name.eq_ignore_ascii_case("rows") => Subject::Rows,
            name if name.contains('`') => return Err(error()),
            name => Subject::Column(name.to_owned()),
        };
        Ok(Self { subject, comparison, number })
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, comparison, number } = self;
        match subject {
            Subject::Rows => write!(f, "rows")?,
            Subject::Column(name) if plain(name) => write!(f, "{name}")?,
            Subject::Column(name) => write!(f, "`{name}`")?,
        }
        write!(f, " {} {number}", comparison.text())
    }
}

/// Whether the name of a column needs no backquotes.
fn plain(name: &str) -> bool {
    !name.eq_ignore_ascii_case("rows") && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Whether an alert may have this name.
pub fn is_alert_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ' '))
        && name.trim() == name
        && !matches!(name, "." | "..")
}

/// What is wrong with the address of a receiver; `None` if it may be one. Which network addresses may be connected to is
/// checked when the message is sent.
fn wrong_url(url: &str) -> Option<&'static str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else { return Some("the url must begin with https:// or http://") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let port = match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => Some(port),
        _ => None,
    };
    if url.len() > MAX_URL {
        return Some("the url is longer than 2048 bytes");
    }
    if url
        .bytes()
        .any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'`' | b'{' | b'}'))
    {
        return Some("the url has a sign that must be percent-encoded");
    }
    if authority.contains('@') {
        return Some(
            "the url has a user name or password, which would be seen by all who see the endpoint; leave it out",
        );
    }
    if url.contains('#') {
        return Some("the url has a fragment (#), which no server receives; leave it out");
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Some("the url has no host");
    }
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return Some("the url has a port that is no number from 1 to 65535");
    }
    None
}

/// What is wrong with the alerts of an endpoint: the name of the alert, and the rule that it breaks. `max_limit` is the most
/// rows of an answer.
pub(crate) fn problems(alerts: &[Alert], max_limit: u64) -> Vec<(String, String)> {
    if alerts.len() > MOST_ALERTS {
        let told = format!("there are {} alerts; an endpoint has at most {MOST_ALERTS}", alerts.len());
        return vec![(String::new(), told)];
    }
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    for alert in alerts {
        let mut wrong = |what: String| problems.push((alert.name.clone(), what));
        if !is_alert_name(&alert.name) {
            wrong("the name must be 1 to 64 letters, digits, '.', '_', '-' or inner blanks".to_owned());
        }
        if !seen.insert(alert.name.as_str()) {
            wrong("there are two alerts of this name".to_owned());
        }
        if !(1..=DAY_MINUTES).contains(&alert.every_minutes) {
            wrong(format!("every_minutes is {}; allowed are 1 to {DAY_MINUTES}", alert.every_minutes));
        }
        if alert.again_after_minutes > DAY_MINUTES {
            wrong(format!("again_after_minutes is {}; allowed are 0 to {DAY_MINUTES}", alert.again_after_minutes));
        }
        if alert.description.len() > 1_000 || alert.description.chars().any(char::is_control) {
            wrong("the description must be one line of at most 1000 bytes".to_owned());
        }
        for (name, value) in &alert.tenant {
            if name.is_empty() || value.is_empty() {
                wrong("the names and values of its tenant must not be empty".to_owned());
            }
        }
        if let Some(what) = wrong_url(&alert.url) {
            wrong(what.to_owned());
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 10,000")]
        let most = max_limit as f64;
        if alert.condition.subject == Subject::Rows && alert.condition.number >= most {
            wrong(format!(
                "the condition {} cannot be decided: an answer has at most {max_limit} rows (max_limit), so the number must \
                 be less; count in the query instead (SELECT COUNT(*) AS n ...) and write n > ...",
                alert.condition
            ));
        }
    }
    problems
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn condition(text: &str) -> Result<Condition, ConditionError> {
        Condition::try_from(text.to_owned())
    }

    #[test]
    fn a_condition_is_a_subject_a_comparison_and_a_number() {
        for (text, shown) in [
            ("rows > 0", "rows > 0"),
            ("ROWS>=3", "rows >= 3"),
            ("errors <> 10", "errors != 10"),
            ("`rows` == -1.5", "`rows` = -1.5"),
            ("p 95 > 2.5e2", "`p 95` > 250"),
            ("größe<=1", "größe <= 1"),
            ("a > b < 5", "`a > b` < 5"),
        ] {
            let read = condition(text).unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(condition(shown).unwrap(), read);
        }
        let long = format!("{} > 1", "x".repeat(400));
        for text in
            ["", "rows", "> 1", "rows >", "rows > x", "rows 5", "a > NaN", "a > inf", "a > 1e17", "`a`b` > 1", &long]
        {
            assert!(condition(text).is_err(), "{text}");
        }
        assert!(condition("a\n> 1").is_err());
    }

    fn alert(change: impl FnOnce(&mut Alert)) -> Vec<(String, String)> {
        let json = r#"{"name": "a", "every_minutes": 5, "condition": "rows > 0", "url": "https://example.com/x"}"#;
        let mut alert: Alert = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&alert).unwrap(), json.replace(": ", ":").replace(", ", ","));
        change(&mut alert);
        problems(&[alert], 1_000)
    }

    #[test]
    fn what_breaks_a_rule_is_told_with_the_rule() {
        assert_eq!(alert(|_| ()), []);
        for url in ["http://h", "https://[::1]:8443/a?b=c", "http://10.0.0.1:80"] {
            assert_eq!(alert(|alert| alert.url = url.to_owned()), [], "{url}");
        }
        for url in [
            "",
            "ftp://h",
            "https://",
            "https:///x",
            "https://u:p@h/",
            "https://h/#x",
            "https://h:0/",
            "https://h:x/",
            "https://h /",
            "https://h\\@i/",
            "javascript:alert(1)",
            "https://:80/",
            "https://h/\u{e9}",
        ] {
            assert_eq!(alert(|alert| alert.url = url.to_owned()).len(), 1, "{url}");
        }
        for (change, word) in [
            ((|alert: &mut Alert| alert.every_minutes = 0) as fn(&mut Alert), "every_minutes"),
            (|alert| alert.every_minutes = 1_441, "every_minutes"),
            (|alert| alert.again_after_minutes = 1_441, "again_after_minutes"),
            (|alert| alert.name = "a/b".to_owned(), "name"),
            (|alert| alert.name = "..".to_owned(), "name"),
            (|alert| alert.description = "a\nb".to_owned(), "description"),
            (|alert| alert.condition.number = 1_000.0, "max_limit"),
        ] {
            let problems = alert(change);
            assert!(problems.len() == 1 && problems.iter().all(|(_, told)| told.contains(word)), "{problems:?}");
        }
    }
}
