//! The schemas of endpoints' answers, as far as they are known. They are a part of the OpenAPI document.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;

/// How long planned columns are used before the query is planned again.
const FRESH: Duration = Duration::from_secs(60);

/// The schema of an endpoint's answer.
#[derive(Debug, Clone)]
pub(super) enum AnswerSchema {
    /// Rows with these columns, as a JSON schema.
    Rows(Value),
    /// Rows whose columns are not known.
    SomeRows,
    /// Any value that its component returns.
    Any,
}

/// The schemas that are known so far, by the id of the endpoint.
#[derive(Debug, Default)]
pub(super) struct RowSchemas {
    known: Mutex<HashMap<Uuid, CachedSchema>>,
    /// Held by the one request that plans queries. The others wait for it, and then find most schemas known.
    pub(super) finding: tokio::sync::Mutex<()>,
}

impl RowSchemas {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, CachedSchema>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The known schema of a version of an endpoint, and whether it is recent enough to be used without planning.
    pub(super) fn known(&self, id: Uuid, version: i64) -> Option<(AnswerSchema, bool)> {
        let all = self.lock();
        let known = all.get(&id).filter(|known| known.version == version)?;
        let is_fresh = matches!(known.answer, AnswerSchema::Any) || known.since.elapsed() < FRESH;
        Some((known.answer.clone(), is_fresh))
    }
}

#[derive(Debug)]
pub(super) struct CachedSchema {
    pub(super) version: i64,
    pub(super) since: Instant,
    pub(super) answer: AnswerSchema,
}
