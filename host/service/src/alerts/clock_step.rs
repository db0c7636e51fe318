//! What is done after the clock went back.
//!
//! The times of the next run and of the next attempt to send a message are written down. If the clock was ahead when that was
//! done, the alert or the message would wait until the clock is there again, without a word: an hour, if it was an hour.

use tidegate_model::Failure;

use super::schedule::{next_run, pause};
use super::state::{Alerts, definition};
use crate::blocking::blocking;
use crate::catalog::{AlertMessageTable, AlertTable};

impl Alerts {
    /// Brings each alert whose next run lies behind the next point of its grid to that point, and each message that waits
    /// longer than the pause after its last attempt to the end of that pause.
    pub(super) async fn bring_forward(&self, now: i64) -> Result<(), Failure> {
        let waiting = blocking(&self.store, move |store| AlertTable(store.catalog()).after(now)).await?;
        for record in waiting {
            let Ok(alert) = definition(&record.definition) else { continue };
            let next = next_run(record.endpoint, &alert, now);
            if record.next_run.is_some_and(|time| time > next) {
                tracing::info!(endpoint = %record.endpoint, alert = record.name, "the clock went back; the alert is run earlier");
                let (endpoint, name) = (record.endpoint, record.name);
                blocking(&self.store, move |store| AlertTable(store.catalog()).reschedule(endpoint, &name, next))
                    .await?;
            }
        }
        let first = self.options.retry_wait;
        let longest = move |attempts: u32| if attempts == 0 { 0 } else { pause(first, attempts) };
        let hastened =
            blocking(&self.store, move |store| AlertMessageTable(store.catalog()).hasten(now, longest)).await?;
        if hastened > 0 {
            tracing::info!(messages = hastened, "the clock went back; messages of alerts are sent earlier");
        }
        Ok(())
    }
}
