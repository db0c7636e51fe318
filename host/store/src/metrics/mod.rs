//! Numbers about the store: the record that callers get ([`stats`]), and the counters behind its totals
//! ([`counters`]).
//!
//! Uses: nothing of this crate.

pub(crate) mod counters;
pub(crate) mod durations;
pub(crate) mod stats;
