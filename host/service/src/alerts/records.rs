//! The alerts of endpoints as the catalog has them, for those who manage them. Failures are those of the store, beside what a
//! function names.

use tidegate_model::{Alert, Failure};
use tidegate_store::{Store, StoreError};
use uuid::Uuid;

use super::report::{AlertRun, Delivery};
use super::state::{Alerts, unknown};
use crate::blocking::blocking;
use crate::catalog::{AlertRecord, AlertTable};

/// An alert with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownAlert {
    /// The identity of its endpoint.
    pub endpoint: Uuid,
    /// Its name.
    pub name: String,
    /// What it is; `None` if another release wrote that, in a form that this one cannot read.
    pub definition: Option<Alert>,
    /// The occurrence that goes on: its identity, and when it began (microseconds).
    pub occurrence: Option<(Uuid, i64)>,
    /// When it is run next (microseconds); `None` while it is paused.
    pub next_run: Option<i64>,
    /// What its last run found.
    pub last_run: Option<AlertRun>,
    /// What became of the last attempt to send a message.
    pub last_delivery: Option<Delivery>,
}

/// How many alerts are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlertStates {
    /// All.
    pub alerts: u64,
    /// Those whose condition holds.
    pub firing: u64,
    /// Messages that are not confirmed.
    pub waiting: u64,
}

impl KnownAlert {
    fn of(record: AlertRecord, last_run: Option<String>) -> Self {
        Self {
            endpoint: record.endpoint,
            name: record.name,
            definition: serde_json::from_str(&record.definition).ok(),
            occurrence: record.state.occurrence,
            next_run: record.next_run,
            last_run: last_run.and_then(|run| serde_json::from_str(&run).ok()),
            last_delivery: record.last_delivery.and_then(|delivery| serde_json::from_str(&delivery).ok()),
        }
    }
}

/// An alert with its last run.
fn with_run(store: &Store, record: AlertRecord) -> Result<KnownAlert, StoreError> {
    let runs = AlertTable(store.catalog()).runs(record.endpoint, &record.name)?;
    Ok(KnownAlert::of(record, runs.into_iter().next()))
}

impl Alerts {
    /// At most so many alerts of all endpoints, each with the name of its endpoint: those that fire first, then by the names
    /// of endpoint and alert.
    pub async fn all(&self, most: usize) -> Result<Vec<(String, KnownAlert)>, Failure> {
        let all = blocking(&self.store, move |store| AlertTable(store.catalog()).all(most)).await?;
        Ok(all.into_iter().map(|(endpoint, record, run)| (endpoint, KnownAlert::of(record, run))).collect())
    }

    /// The alerts of an endpoint, by name.
    pub async fn of(&self, endpoint: Uuid) -> Result<Vec<KnownAlert>, Failure> {
        let read = move |store: &Store| {
            AlertTable(store.catalog()).of(endpoint)?.into_iter().map(|record| with_run(store, record)).collect()
        };
        blocking(&self.store, read).await
    }

    /// One alert of an endpoint.
    ///
    /// # Errors
    /// [`tidegate_model::Code::NotFound`].
    pub async fn one(&self, endpoint: Uuid, name: &str) -> Result<KnownAlert, Failure> {
        let record = self.record(endpoint, name).await?;
        blocking(&self.store, move |store| with_run(store, record)).await
    }

    /// The last runs of an alert, the newest first.
    pub async fn last_runs(&self, endpoint: Uuid, name: &str) -> Result<Vec<AlertRun>, Failure> {
        let key = name.to_owned();
        let runs = blocking(&self.store, move |store| AlertTable(store.catalog()).runs(endpoint, &key)).await?;
        Ok(runs.iter().filter_map(|run| serde_json::from_str(run).ok()).collect())
    }

    /// The secret that signs the messages of an alert.
    pub async fn secret(&self, endpoint: Uuid, name: &str) -> Result<Option<String>, Failure> {
        let key = name.to_owned();
        blocking(&self.store, move |store| AlertTable(store.catalog()).secret(endpoint, &key)).await
    }

    /// Gives an alert another secret. The old one counts no more.
    ///
    /// # Errors
    /// [`tidegate_model::Code::NotFound`].
    pub async fn set_secret(&self, endpoint: Uuid, name: &str, secret: &str) -> Result<(), Failure> {
        let (key, new) = (name.to_owned(), secret.to_owned());
        let is_there =
            blocking(&self.store, move |store| AlertTable(store.catalog()).set_secret(endpoint, &key, &new)).await?;
        if is_there { Ok(()) } else { Err(unknown(name)) }
    }

    /// How many alerts there are, fire, and wait with a message. Blocks the thread.
    pub fn states(&self) -> Result<AlertStates, StoreError> {
        let (alerts, firing, waiting) = AlertTable(self.store.catalog()).count()?;
        Ok(AlertStates { alerts, firing, waiting })
    }
}
