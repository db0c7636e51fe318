//! What is done with a query: it is followed, its answer is kept for others, or it is made, whole or while it is sent. This is
//! decided here alone.

use std::sync::Arc;

use tidegate_model::Failure;

use crate::answer::{Encoded, Format, Streamed};
use crate::cache::Lookup;
use crate::execution::{QueryRequest, RunRecord};
use crate::follow::{FollowRequest, Follower};
use crate::service::Service;
use crate::tokens::Access;

/// The answer to a query.
#[derive(Debug)]
pub enum QueryAnswer {
    /// Rows that are there and rows to come, until the caller leaves.
    Followed(Follower),
    /// Rows that are sent while they are read, and kept for nobody.
    Streamed(Streamed),
    /// An answer that is kept for nobody.
    Made(Encoded),
    /// An answer that is kept for others if its component allows it, and where it came from.
    Kept(Lookup),
}

impl Service {
    /// Answers a request that arrived at this time, in microseconds since 1970. How its component ran is written to `record`.
    ///
    /// # Errors
    /// Those of the component, its statements and the limits.
    pub async fn answer(
        &self,
        request: &Arc<QueryRequest>,
        arrived: i64,
        follow: Option<FollowRequest>,
        record: &Arc<RunRecord>,
    ) -> Result<QueryAnswer, Failure> {
        if let Some(follow) = follow {
            return self.following.open(follow).await.map(QueryAnswer::Followed);
        }
        let (executor, record) = (Arc::clone(&self.executor), Arc::clone(record));
        // An ad-hoc query of a private token over all sources may read anything, so it is not known when its answer
        // changes.
        let is_kept = request.endpoint.manifest.settings.cache_duration_seconds > 0 && !request.unrestricted;
        if !is_kept && request.format == Format::NdJson {
            return executor.execute_streamed(Arc::clone(request), arrived, record).await.map(QueryAnswer::Streamed);
        }
        let execution = executor.execute(Arc::clone(request), arrived, request.account, record);
        if is_kept {
            self.cache.answer(request, execution).await.map(QueryAnswer::Kept)
        } else {
            execution.await.map(QueryAnswer::Made)
        }
    }
}

/// Whether a token is told what its queries cost and read: a private one without pinned parameters. How many rows were
/// looked at tells about rows of others, which a caller with pinned parameters must not learn.
pub fn learns_cost(access: &Access) -> bool {
    access.is_private() && access.pinned.is_empty()
}
