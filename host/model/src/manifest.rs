//! The manifest of an endpoint: the content of `endpoint.toml`, and what the management API accepts.
//!
//! It is a part of the component (custom section `tidegate:manifest`, canonical JSON), so that the digest of a
//! component covers what the endpoint was declared to do.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{Alert, Arguments, Code, Errors, Failure, LimitSet, MOST_PARAMETERS, ManifestError, Parameter};

/// The most rows that an endpoint may be set to return.
const MAX_ROWS: u64 = 10_000;

/// Names with another meaning in the paths of the HTTP interface.
const RESERVED_NAMES: [&str; 1] = ["query"];
/// Names of parameters with another meaning in a request.
const RESERVED_PARAMETERS: [&str; 2] = ["sql", "lql"];

/// What an endpoint is: its name, parameters, granted tables, statements and settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The unique name, usable in the path.
    pub name: EndpointName,
    /// One line for readers.
    #[serde(default)]
    pub description: String,
    /// The saved query. Its top-level CTEs are the granted tables, its body the default statement.
    #[serde(default)]
    pub query: String,
    /// Further named statements over the same grants (`statements/*.sql`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statements: BTreeMap<String, String>,
    /// Declared parameters. Those that the query uses but that are not declared are optional text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// Row cap, cache, sandbox, redaction.
    #[serde(default)]
    pub settings: Settings,
    /// The endpoint's own limits, if lower than those of the server.
    #[serde(default, skip_serializing_if = "LimitSet::is_empty")]
    pub limits: LimitSet,
    /// Questions that are asked on a schedule, and what is sent of their answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<Alert>,
}

/// The settings of an endpoint (spec.md 2.1), named as in the management API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Upper bound on the rows returned, 1 to 10,000.
    pub max_limit: u64,
    /// Seconds for which a result may be served from the cache; 0 is off.
    pub cache_duration_seconds: u64,
    /// Seconds between refreshes of cached results without a request; absent is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proactive_requerying_seconds: Option<u64>,
    /// Whether ad-hoc `sql` and `lql` are restricted to the granted tables.
    pub sandboxable: bool,
    /// Whether personal data is redacted where the request does not say.
    pub redact_pii: bool,
    /// The status of error answers; absent means the choice of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
    /// Whether a token is needed.
    pub enable_auth: bool,
    /// Labels for the operator, `k=v` separated by commas.
    pub labels: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_limit: 1000,
            cache_duration_seconds: 0,
            proactive_requerying_seconds: None,
            sandboxable: false,
            redact_pii: false,
            errors: None,
            enable_auth: true,
            labels: String::new(),
        }
    }
}

/// The name of an endpoint: 1 to 128 letters, digits, `.`, `_`, `-`, and inner blanks. It must not be a UUID, because a
/// path names an endpoint by either.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EndpointName(String);

impl Manifest {
    /// A manifest with a name and a query and otherwise defaults.
    pub fn new(name: EndpointName, query: impl Into<String>) -> Self {
        Self {
            name,
            description: String::new(),
            query: query.into(),
            statements: BTreeMap::new(),
            parameters: Vec::new(),
            settings: Settings::default(),
            limits: LimitSet::new(),
            alerts: Vec::new(),
        }
    }

    /// Checks the rules that the types do not enforce: ranges, names of parameters, presence of a query.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ManifestError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// All broken rules, in the order of the fields. Some apply only when an endpoint is saved
    /// ([`ManifestError::is_of_saving`]).
    pub fn problems(&self) -> Vec<ManifestError> {
        let mut problems = Vec::new();
        if RESERVED_NAMES.contains(&self.name.as_str()) {
            problems.push(ManifestError::ReservedName(self.name.to_string()));
        }
        if self.query.trim().is_empty() {
            problems.push(ManifestError::EmptyQuery);
        }
        let mut range = |setting, value, ok: bool, allowed| {
            if !ok {
                problems.push(ManifestError::Setting { setting, value, allowed });
            }
        };
        let Settings {
            max_limit,
            cache_duration_seconds,
            proactive_requerying_seconds,
            sandboxable: _,
            redact_pii: _,
            errors: _,
            enable_auth: _,
            labels: _,
        } = self.settings;
        range("max_limit", max_limit, (1..=MAX_ROWS).contains(&max_limit), "1 to 10000");
        range("cache_duration_seconds", cache_duration_seconds, cache_duration_seconds <= 86_400, "0 (off) to 86400");
        if let Some(seconds) = proactive_requerying_seconds {
            range("proactive_requerying_seconds", seconds, (1..=86_400).contains(&seconds), "1 to 86400, or null");
        }
        let alerts = crate::alert::problems(&self.alerts, max_limit).into_iter();
        problems.extend(alerts.map(|(alert, problem)| ManifestError::Alert { alert, problem }));
        if self.parameters.len() > MOST_PARAMETERS {
            // Otherwise each of them would be reported as well.
            problems.push(ManifestError::Parameters(self.parameters.len()));
            return problems;
        }
        let mut seen = std::collections::BTreeSet::new();
        for parameter in &self.parameters {
            let name = &parameter.name;
            let legal = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            // SQL resolves parameters case-insensitively.
            if !legal || !seen.insert(name.to_ascii_lowercase()) {
                problems.push(ManifestError::Parameter(name.clone()));
            }
            if RESERVED_PARAMETERS.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
                problems.push(ManifestError::ReservedParameter(name.clone()));
            }
            if let (Some(default), Err(failure)) = (&parameter.default, parameter.check(None)) {
                let message = failure.message;
                let told =
                    if message.contains(default.as_str()) { message } else { format!("{message} ('{default}')") };
                problems.push(ManifestError::Default(told));
            }
        }
        problems
    }

    /// Checks the parameters of a request against the declared ones. Values of undeclared names are accepted as text,
    /// because ad-hoc SQL may use them; those that no statement uses are ignored.
    ///
    /// SQL finds parameters without regard to case. So no two of the arguments have the same name in different spellings:
    /// one of them would be read in the place of the other, and would not have passed its checks.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] for the first invalid one; for a declared name in another spelling; for a name that
    /// occurs twice, in any spelling.
    pub fn check_arguments(&self, sent: &[(String, String)]) -> Result<Arguments, Failure> {
        let declared: BTreeMap<String, &str> =
            self.parameters.iter().map(|own| (own.name.to_ascii_lowercase(), own.name.as_str())).collect();
        let (mut arguments, mut seen) = (Arguments::new(), BTreeMap::new());
        for (name, text) in sent {
            let folded = name.to_ascii_lowercase();
            let known = declared.get(&folded).copied().filter(|known| *known != name);
            let message = match (known, seen.insert(folded, name)) {
                (Some(known), _) => format!("the endpoint has no parameter '{name}'; did you mean '{known}'?"),
                (None, Some(before)) if before == name => format!("parameter '{name}' is given more than once"),
                (None, Some(before)) => format!("parameter '{name}' is given more than once, also as '{before}'"),
                (None, None) => {
                    arguments.insert(name.clone(), crate::Value::Text(text.clone()));
                    continue;
                }
            };
            return Err(Failure::new(Code::InvalidParameter, message).about(name));
        }
        for parameter in &self.parameters {
            let sent = match arguments.get(&parameter.name) {
                Some(crate::Value::Text(text)) => Some(text.clone()),
                _ => None,
            };
            let value = parameter.check(sent.as_deref())?;
            arguments.insert(parameter.name.clone(), value);
        }
        Ok(arguments)
    }
}

impl EndpointName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for EndpointName {
    type Error = ManifestError;

    fn try_from(name: String) -> Result<Self, ManifestError> {
        let legal = (1..=128).contains(&name.len())
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ' '))
            && name.trim() == name
            && uuid::Uuid::try_parse(&name).is_err();
        if legal { Ok(Self(name)) } else { Err(ManifestError::Name(name)) }
    }
}

impl From<EndpointName> for String {
    fn from(name: EndpointName) -> Self {
        name.0
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest::new(EndpointName::try_from("a.b".to_owned()).unwrap(), "select 1")
    }

    #[test]
    fn names_that_could_be_mistaken_are_refused() {
        for name in ["", " a", "a/b", "8f0e8f3e-0000-4000-8000-000000000000", "a\nb"] {
            assert!(EndpointName::try_from(name.to_owned()).is_err(), "{name:?}");
        }
    }

    #[test]
    fn settings_outside_their_range_are_refused_by_name() {
        let mut manifest = manifest();
        manifest.settings.max_limit = 0;
        assert!(manifest.validate().unwrap_err().to_string().contains("max_limit is 0"));
        manifest.settings.max_limit = 10;
        manifest.settings.proactive_requerying_seconds = Some(0);
        assert!(manifest.validate().is_err());
    }

    #[test]
    fn what_could_never_be_called_is_refused() {
        let mut named = manifest();
        named.name = EndpointName::try_from("query".to_owned()).unwrap();
        assert!(named.validate().unwrap_err().to_string().contains("/api/endpoints/query/"));
        let of = |parameter: Parameter| {
            let mut manifest = manifest();
            manifest.parameters.push(parameter);
            manifest.validate().map_err(|error| error.to_string())
        };
        for name in ["sql", "LQL"] {
            assert!(of(Parameter { name: name.into(), ..Parameter::default() }).unwrap_err().contains("ad-hoc"));
        }
        let allowed = vec!["hour".to_owned(), "day".to_owned()];
        let unit = |default: &str| Parameter {
            name: "unit".into(),
            default: Some(default.to_owned()),
            allowed: allowed.clone(),
            ..Parameter::default()
        };
        assert_eq!(of(unit("day")), Ok(()));
        let told = of(unit("dy")).unwrap_err();
        assert_eq!(told, "the default of parameter 'unit' has the value 'dy'; allowed are hour, day");
        let mut many = manifest();
        many.parameters.resize(MOST_PARAMETERS + 1, Parameter { name: "p".into(), ..Parameter::default() });
        assert_eq!(many.problems(), [ManifestError::Parameters(MOST_PARAMETERS + 1)]);
        let number = Parameter { kind: crate::Kind::Int64, allowed: Vec::new(), ..unit("many") };
        assert!(of(number).unwrap_err().contains("no integer"));
    }

    #[test]
    fn arguments_are_checked_and_undeclared_ones_kept() {
        let mut manifest = manifest();
        manifest.parameters.push(Parameter { name: "project".into(), required: true, ..Parameter::default() });
        let sent = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            manifest.check_arguments(&pairs)
        };
        assert!(sent(&[]).unwrap_err().message.contains("'project'"));
        assert!(sent(&[("project", "a"), ("project", "b")]).unwrap_err().message.contains("more than once"));
        let arguments = sent(&[("project", "a"), ("ref", "x")]).unwrap();
        assert_eq!(arguments.get("ref"), Some(&crate::Value::Text("x".into())));
    }

    #[test]
    fn a_name_has_one_spelling_in_a_request() {
        let mut manifest = manifest();
        let of = |name: &str, kind, allowed: &str| Parameter {
            name: name.into(),
            kind,
            allowed: vec![allowed.into()],
            ..Parameter::default()
        };
        manifest.parameters.push(Parameter { required: true, ..of("project", crate::Kind::Text, "a") });
        manifest.parameters.push(of("Days", crate::Kind::Int64, "7"));
        let sent = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            manifest.check_arguments(&pairs)
        };
        for (pairs, told) in [
            (&[("project", "a"), ("Project", "b")][..], "did you mean 'project'?"),
            (&[("PROJECT", "b"), ("project", "a")], "did you mean 'project'?"),
            (&[("Project", "a")], "did you mean 'project'?"),
            (&[("project", "a"), ("days", "400")], "did you mean 'Days'?"),
            (&[("project", "a"), ("ref", "x"), ("Ref", "x")], "also as 'ref'"),
        ] {
            let failure = sent(pairs).unwrap_err();
            assert_eq!(failure.code, Code::InvalidParameter);
            assert!(failure.message.contains(told), "{pairs:?}: {failure}");
        }
        let arguments = sent(&[("project", "a"), ("Days", "7"), ("Ref", "x")]).unwrap();
        assert_eq!(arguments.get("Days"), Some(&crate::Value::Int64(7)));
        assert_eq!(arguments.keys().collect::<Vec<_>>(), ["Days", "Ref", "project"]);
    }
}
