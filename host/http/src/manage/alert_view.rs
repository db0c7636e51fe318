//! Alerts as requests say them and answers show them.

use std::sync::LazyLock;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_model::{Alert, Condition};
use tidegate_service::alerts::{AlertRun, Delivery, KnownAlert};

use super::fields::{Definition as _, Fields, definition, shown_names};
use crate::shown::{Id, Time};

/// The lengths that a secret may have, in bytes.
pub(super) const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

definition! {
    /// What may be said of an alert.
    pub(crate) struct AlertFields and NewAlert needs ["name", "every_minutes", "condition", "url"] like Alert {
        name: String,
        description: String,
        every_minutes: u64,
        condition: String,
        url: String,
        parameters: BTreeMap<String, String> = "an object of parameters and their texts",
        tenant: BTreeMap<String, String> = "an object of tenant keys and values",
        again_after_minutes: u64,
        notify_resolved: bool,
        paused: bool,
    }
}

/// An alert with its state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Alert", extend("required" = ["name", "every_minutes", "condition", "url", "firing", "next_run"]))]
pub(crate) struct AlertView {
    #[serde(flatten)]
    fields: AlertFields,
    /// Whether the condition held at the last run that could tell.
    firing: bool,
    since: Option<Time>,
    occurrence: Option<Id>,
    /// Null while it is paused.
    next_run: Option<Time>,
    last_run: Option<AlertRun>,
    last_delivery: Option<Delivery>,
    /// Where it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub(super) warnings: Option<Vec<String>>,
}

/// An alert in the list of all.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["name", "endpoint", "firing", "since", "last_run", "last_delivery"]))]
pub(crate) struct AlertOfEndpoint {
    #[serde(flatten)]
    pub(super) alert: AlertView,
    pub(super) endpoint: EndpointName,
}

/// An endpoint by its id and its name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct EndpointName {
    pub(super) id: Id,
    pub(super) name: String,
}

/// An alert that was just made.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["name", "every_minutes", "condition", "url", "firing", "next_run", "secret"]))]
pub(crate) struct MadeAlert {
    #[serde(flatten)]
    pub(super) alert: AlertView,
    /// Shown once.
    #[schemars(with = "String")]
    pub(super) secret: Option<String>,
}

/// What became of a test message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AlertTest {
    #[serde(flatten)]
    pub(super) delivery: Delivery,
    /// Whether the condition holds now.
    pub(super) holds: bool,
}

definition! {
    /// What may be said of another secret.
    pub(crate) struct AlertSecretFields {
        /// A new one is made if it is null or absent.
        #[schemars(length(min = *SECRET_BYTES.start(), max = *SECRET_BYTES.end()))]
        secret: Option<String>,
    }
}

/// The secret of an alert.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AlertSecret {
    /// Shown once.
    pub(super) secret: String,
}

/// An alert with its state.
pub(super) fn shown(known: KnownAlert) -> AlertView {
    let (occurrence, since) = known.occurrence.unzip();
    let by_name = || AlertFields { name: Some(known.name.clone()), ..AlertFields::default() };
    AlertView {
        // With the defaults, which the stored definition leaves out.
        fields: known.definition.map_or_else(by_name, AlertFields::from),
        firing: occurrence.is_some(),
        since: since.map(Time),
        occurrence: occurrence.map(Id),
        next_run: known.next_run.map(Time),
        last_run: known.last_run,
        last_delivery: known.last_delivery,
        warnings: None,
    }
}

impl From<Alert> for AlertFields {
    fn from(alert: Alert) -> Self {
        Self {
            name: Some(alert.name),
            description: Some(alert.description),
            every_minutes: Some(alert.every_minutes),
            condition: Some(alert.condition.to_string()),
            url: Some(alert.url),
            parameters: Some(alert.parameters),
            tenant: Some(alert.tenant),
            again_after_minutes: Some(alert.again_after_minutes),
            notify_resolved: Some(alert.notify_resolved),
            paused: Some(alert.paused),
        }
    }
}

/// The fields that answers show.
static SHOWN: LazyLock<Vec<String>> = LazyLock::new(shown_names::<MadeAlert>);

/// An alert from the fields of a request. Fields that are left out keep their value on a change, and have their default on
/// creation.
pub(super) fn alert_of(fields: &mut Fields, base: Option<Alert>) -> Option<Alert> {
    fields.ignore_shown(&SHOWN);
    let sent = AlertFields::take(fields).or(base.map(AlertFields::from).unwrap_or_default());
    let missing =
        [("name", sent.name.is_none()), ("every_minutes", sent.every_minutes.is_none()), ("url", sent.url.is_none())];
    for (name, is_missing) in missing {
        if is_missing && !fields.has_refused(name) {
            fields.refuse(name, format!("an alert needs {name}"));
        }
    }
    let condition = match sent.condition.map(Condition::try_from) {
        Some(Ok(condition)) => Some(condition),
        Some(Err(error)) => {
            fields.refuse("condition", error.to_string());
            None
        }
        None if fields.has_refused("condition") => None,
        None => {
            fields.refuse("condition", "an alert needs a condition, such as \"rows > 0\"");
            None
        }
    };
    Some(Alert {
        name: sent.name?,
        description: sent.description.unwrap_or_default(),
        every_minutes: sent.every_minutes?,
        condition: condition?,
        url: sent.url?,
        parameters: sent.parameters.unwrap_or_default(),
        tenant: sent.tenant.unwrap_or_default(),
        again_after_minutes: sent.again_after_minutes.unwrap_or_default(),
        notify_resolved: sent.notify_resolved.unwrap_or(true),
        paused: sent.paused.unwrap_or_default(),
    })
}
