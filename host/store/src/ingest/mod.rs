//! From the JSON that a sender sent to the body of a write-ahead row.
//!
//! An event is parsed with a bound on its number of values ([`json_tree`]), its time is read ([`event_time`]), it
//! is brought into the one form in which events are stored ([`normalise`]), and it is appended to the body of its
//! call ([`intake`]). Nothing here knows columns or files.
//!
//! Uses: the names of the reserved fields, errors.

pub(crate) mod event_time;
pub(crate) mod intake;
pub(crate) mod json_tree;
pub(crate) mod normalise;
