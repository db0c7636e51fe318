//! The clock of the store.

/// The present time in microseconds since 1970, UTC.
pub(crate) fn now_micros() -> i64 {
    chrono::Utc::now().timestamp_micros()
}
