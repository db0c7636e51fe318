//! What followed queries use, as metrics. The service counts it; this module only shows it.

use tidegate_model::number;
use tidegate_service::follow::FollowNumbers;

use super::figures::Figure;

/// Counters: numbers that only grow.
pub(super) const TOTALS: [Figure<FollowNumbers>; 5] = [
    ("tidegate_follow_rows_sent", "Rows that were sent to followers", |follow| follow.sent),
    ("tidegate_follow_rows_missed", "Rows that followers missed because they read too slowly", |follow| follow.missed),
    ("tidegate_follow_looks", "Runs of a followed query over new rows", |follow| follow.looks),
    ("tidegate_follow_stored_looks", "Runs of a followed query over stored rows", |follow| follow.stored_looks),
    ("tidegate_follow_refused", "Followers that were refused because there are enough", |follow| follow.refused),
];

/// Gauges: current numbers.
pub(super) const LEVELS: [Figure<FollowNumbers>; 3] = [
    ("tidegate_followers", "Followers of queries", |follow| number(follow.followers)),
    ("tidegate_follow_queries", "Different queries that are followed", |follow| number(follow.hubs)),
    ("tidegate_follow_bytes", "Bytes of new rows that are kept for followers", |follow| number(follow.held)),
];
