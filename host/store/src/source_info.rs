//! What callers learn of a source, and its retention limits.

use std::time::Duration;

use tidegate_model::SourceTenancy;
use uuid::Uuid;

/// A source, as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// Identity; also the name of its folder.
    pub id: Uuid,
    /// Unique name; may change.
    pub name: String,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// The source's own limits. For a limit that is absent, [`StoreOptions::retention`](crate::StoreOptions::retention)
    /// applies.
    pub retention: Retention,
    /// Whose its rows are; `None` if it does not say. Then only who may read all rows reads any.
    pub tenant: Option<SourceTenancy>,
}

/// Whose rows are whose, in the form of the catalog. A text that cannot be read says nothing, so that no tenant reads any.
pub(crate) fn tenancy_of_text(text: Option<&str>) -> Option<SourceTenancy> {
    let read = serde_json::from_str(text?);
    read.inspect_err(|error| tracing::error!(%error, "the tenant keys of a source cannot be read")).ok()
}

/// How long rows are kept. Whole segments are dropped, so that rows may be kept somewhat longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Segments older than this are dropped. Stored in seconds, rounded up. [`Duration::MAX`] means for ever. The age
    /// counts from when the rows became a segment, not from their `timestamp`: logs of last year that are imported
    /// today are kept as long as those of today, and an event with a time in the future does not keep its segment for
    /// ever.
    pub max_age: Option<Duration>,
    /// Segments are dropped, those with the oldest rows (by `timestamp`) first, until the files of the source take no
    /// more bytes than this. Rows in memory do not count.
    pub max_bytes: Option<u64>,
}

impl Retention {
    /// The limits, with absent ones taken from `default`.
    pub fn or(self, default: Retention) -> Retention {
        Retention { max_age: self.max_age.or(default.max_age), max_bytes: self.max_bytes.or(default.max_bytes) }
    }

    /// The form in the catalog: seconds and bytes.
    pub(crate) fn to_columns(self) -> (Option<i64>, Option<i64>) {
        let seconds = self.max_age.map(|age| age.as_secs().saturating_add(u64::from(age.subsec_nanos() > 0)));
        let fit = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        (seconds.map(fit), self.max_bytes.map(fit))
    }

    pub(crate) fn of_columns(seconds: Option<i64>, bytes: Option<i64>) -> Retention {
        let forever = |seconds| if seconds == i64::MAX { Duration::MAX } else { Duration::from_secs(plain(seconds)) };
        Retention { max_age: seconds.map(forever), max_bytes: bytes.map(plain) }
    }
}

fn plain(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
