//! The newest rows of a source.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{Arguments, Audience, Code, Failure};
use tidegate_runtime::Body;
use tidegate_sql::{Binding, Stop};

use super::Executor;
use crate::account::Account;
use crate::answer::{Encoded, EncodingOptions, Format, encode, rows_of};
use crate::tables::StoredTables;

/// How long reading them may take.
const RECENT_TIME: Duration = Duration::from_secs(10);

impl Executor {
    /// The newest rows of a source, whosever they are, as JSON, newest first, read as a query of the account is: with one of its
    /// permits and in its turns. `now` is in microseconds since 1970, UTC.
    ///
    /// # Errors
    /// The engine's; no permit is free in time; [`Code::Timeout`] after ten seconds; a memory budget that is used up.
    pub async fn recent_rows(
        self: Arc<Self>,
        source: String,
        rows: usize,
        account: Account,
        now: i64,
    ) -> Result<Encoded, Failure> {
        let permit = Arc::new(self.admission.enter(account).await?);
        let memory = self.answers.of(account);
        let stop = Stop::after(RECENT_TIME);
        let own = Arc::clone(&self);
        let work = self.compute.run_in(permit, async move {
            let newest = async {
                // Names of sources have no backticks in them.
                let sql = format!("SELECT * FROM `{source}` ORDER BY timestamp DESC LIMIT {rows}");
                let tables = StoredTables::all(own.endpoints.store(), own.endpoints.registry(), &Audience::All);
                let arguments = Arguments::new();
                let plan = own.engine.plan(&sql, Binding::new(&tables, &arguments, now))?;
                Ok(Body::Rows(rows_of(own.engine.run(plan, Some(rows)).await?)).into())
            };
            let bytes = own.limits.answer_bytes;
            let options = EncodingOptions { format: Format::Json, rows, bytes, redact: false };
            stop.clone().cover(encode(newest, options, memory)).await
        });
        let late = |_| Err(Failure::new(Code::Timeout, "the newest rows took too long to read"));
        tokio::time::timeout(RECENT_TIME, work).await.unwrap_or_else(late)
    }
}
