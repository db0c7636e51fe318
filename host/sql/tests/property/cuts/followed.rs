//! What a follower gets: the rows of a statement that is a filter, as they came and again from where they are stored.
//!
//! Both are what the query answers. The feed reads calls as they were committed; a follower that comes back reads segments
//! and memory in the order of places. A tenant's policy stands in both, below the statement.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use tidegate_model::Failure;
use tidegate_sql::{Engine, Plan, PreparedPlan};
use tidegate_store::{Feed, FollowedTable, Store, WantedCalls};

use super::world::texts;

/// Memory of one look, in bytes.
const MEMORY: usize = 256 << 20;

/// The rows that a follower of a statement gets from the feed, and from what is stored. Both in pieces of about `rows`
/// rows. `None` where the statement is more than a filter over one table.
pub(super) async fn followed(
    engine: &Engine,
    store: &Store,
    feed: &Feed,
    plan: &Plan,
    rows: usize,
) -> Option<Result<[Vec<Vec<String>>; 2], Failure>> {
    let table = FollowedTable::of(plan.followed_table().ok()?.as_ref()).unwrap();
    let both = async {
        Ok([from_feed(engine, feed, plan, &table, rows).await?, stored(engine, store, plan, &table, rows).await?])
    };
    Some(both.await)
}

async fn from_feed(
    engine: &Engine,
    feed: &Feed,
    plan: &Plan,
    table: &FollowedTable,
    rows: usize,
) -> Result<Vec<Vec<String>>, Failure> {
    let prepared = engine.prepare(plan, Arc::clone(&table.table), &FollowedTable::PLACE).await?;
    let (mut all, mut after) = (Vec::new(), 0);
    while let Some(slice) = feed.slice(after, rows, usize::MAX).unwrap() {
        after = slice.last();
        all.extend(look(engine, &prepared, Arc::new(slice)).await?);
    }
    Ok(all)
}

async fn stored(
    engine: &Engine,
    store: &Store,
    plan: &Plan,
    table: &FollowedTable,
    rows: usize,
) -> Result<Vec<Vec<String>>, Failure> {
    let (mut all, mut after) = (Vec::new(), 0);
    while after < table.position {
        let wanted = WantedCalls { after, up_to: table.position, rows, span: i64::MAX };
        let calls = store.stored_calls(table, wanted).unwrap();
        assert!(calls.is_complete && calls.last > after, "{calls:?}");
        after = calls.last;
        let prepared = engine.prepare(plan, calls.table, &FollowedTable::PLACE).await?;
        all.extend(look(engine, &prepared, Arc::new(())).await?);
    }
    Ok(all)
}

async fn look(
    engine: &Engine,
    prepared: &PreparedPlan,
    slice: Arc<impl Any + Send + Sync>,
) -> Result<Vec<Vec<String>>, Failure> {
    let batches: Vec<RecordBatch> = engine.run_prepared(prepared, slice, MEMORY)?.try_collect().await?;
    Ok(texts(&batches, prepared.columns()))
}
