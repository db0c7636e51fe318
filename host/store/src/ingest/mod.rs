//! From the JSON that a sender sent to the body of a write-ahead row.
//!
//! An event is parsed ([`tape_reader`], [`tape_builder`]) into one list of its values ([`tape`]), with a bound on their number; the
//! formats that change a part of an event have it as a tree ([`json_tree`]). Its time is read ([`event_time`]), and it
//! is appended to the body of its call ([`intake`]) in the one form in which events are stored ([`normalise`]).
//! Nothing here knows columns or files.
//!
//! Uses: the names of the reserved fields, errors.

pub(crate) mod event_time;
pub(crate) mod intake;
pub(crate) mod json_tree;
pub(crate) mod normalise;
pub(crate) mod tape;
mod tape_builder;
pub(crate) mod tape_reader;
