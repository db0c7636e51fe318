//! Why a manifest is refused: one error for each rule, with the field that breaks it.

use crate::MOST_PARAMETERS;

/// Why a manifest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The name breaks the rules of `EndpointName`.
    #[error(
        "the endpoint name '{0}' is not allowed: use 1 to 128 letters, digits, '.', '_', '-' or inner blanks, and no UUID"
    )]
    Name(String),
    /// A parameter is declared twice, or its name cannot be written as `@name`.
    #[error("the parameter '{0}' is declared twice or is no name of letters, digits and '_'")]
    Parameter(String),
    /// There are more parameters than a request may have.
    #[error("there are {0} parameters; an endpoint takes at most {MOST_PARAMETERS}")]
    Parameters(usize),
    /// A parameter has a name that means something else in a request.
    #[error("the parameter '{0}' cannot be sent: {0} carries ad-hoc queries; give it another name")]
    ReservedParameter(String),
    /// The default of a parameter is not an allowed value.
    #[error("the default of {0}")]
    Default(String),
    /// The name is a part of the paths by which endpoints are called.
    #[error("the endpoint name '{0}' is taken: endpoints are called under /api/endpoints/{0}/")]
    ReservedName(String),
    /// A setting is outside its range.
    #[error("{setting} is {value}; allowed are {allowed}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// There is no query, so there is nothing to grant or to run.
    #[error("the query is empty")]
    EmptyQuery,
    /// An alert breaks a rule.
    #[error("{}{problem}", of_alert(alert))]
    Alert {
        /// The name of the alert; empty if it is about all of them.
        alert: String,
        /// The rule.
        problem: String,
    },
    /// The text is not a manifest.
    #[error("the manifest cannot be read: {0}")]
    Unreadable(String),
}

/// The beginning of a message about an alert.
fn of_alert(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("the alert '{}': ", name.chars().take(64).collect::<String>()) }
}

impl ManifestError {
    /// Whether the rule applies only when an endpoint is saved. Endpoints that were saved before the rule existed keep
    /// working.
    pub fn is_of_saving(&self) -> bool {
        matches!(
            self,
            Self::ReservedName(_)
                | Self::ReservedParameter(_)
                | Self::Default(_)
                | Self::Parameters(_)
                | Self::Alert { .. }
        )
    }

    /// The field that breaks the rule, by its name in the management API.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::ReservedName(_) => "name",
            Self::Parameter(_) | Self::Parameters(_) | Self::ReservedParameter(_) | Self::Default(_) => "parameters",
            Self::Setting { setting, .. } => setting,
            Self::EmptyQuery => "query",
            Self::Alert { .. } => "alerts",
            Self::Unreadable(_) => "manifest",
        }
    }
}
