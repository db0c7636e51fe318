//! From the JSON that a sender sent to the body of a write-ahead row.
//!
//! An event is parsed ([`tape_reader`], [`tape_builder`]) into one list of its values ([`tape`]), with a bound on their number; the
//! formats that change a part of an event have it as a tree ([`json_tree`]). Its time is read ([`event_time`]), it
//! is brought into the one form in which events are stored ([`normalise`], [`tape_pruning`]), gets the tenant of a sender that
//! sends for one only ([`tenant_keys`]), and becomes text again ([`json_text`]) for the body of its call ([`crate::intake`]).
//! Nothing here knows files.
//!
//! Uses: the names of the reserved fields, errors.

pub(crate) mod event_time;
pub(crate) mod json_text;
pub(crate) mod json_tree;
pub(crate) mod normalise;
pub(crate) mod request_key;
pub(crate) mod tape;
mod tape_builder;
mod tape_pruning;
pub(crate) mod tape_reader;
pub(crate) mod tenant_keys;
