//! What is done after the clock went back.
//!
//! The time of the next run is written down. If the clock was ahead when that was done, the alert would wait until the clock
//! is there again, without a word: an hour, if it was an hour.

use tidegate_model::Failure;

use super::schedule::next_run;
use super::state::{Alerts, definition};
use crate::blocking::blocking;

impl Alerts {
    /// Brings each alert whose next run lies behind the next point of its grid to that point.
    pub(super) async fn bring_forward(&self, now: i64) -> Result<(), Failure> {
        let waiting = blocking(&self.store, move |store| store.catalog().alerts_after(now)).await?;
        for record in waiting {
            let Ok(alert) = definition(&record.definition) else { continue };
            let next = next_run(record.endpoint, &alert, now);
            if record.next_run.is_some_and(|time| time > next) {
                tracing::info!(endpoint = %record.endpoint, alert = record.name, "the clock went back; the alert is run earlier");
                let (endpoint, name) = (record.endpoint, record.name);
                blocking(&self.store, move |store| store.catalog().reschedule_alert(endpoint, &name, next)).await?;
            }
        }
        Ok(())
    }
}
