//! Following a query: its newest rows, and then each new one as it is committed.
//!
//! - `position`: where a follower is, as the id of an event;
//! - `event`: the events of a stream;
//! - `ring`: the newest rows of a statement, encoded once;
//! - `statement`: planning a statement, and running it over new rows;
//! - `hub`: one statement for all of its followers;
//! - `following`: all followers of a service, and their bounds;
//! - `source_task`: looks at the new rows of a source, for all hubs;
//! - `reach`: how many stored rows are looked at at once;
//! - `follower`: the stream of one caller;
//! - `catch_up`: what that stream reads by itself, of rows that are new no longer;
//! - `open`: from a request to a stream.
//!
//! A statement that is followed is a filter over one source. It is planned as any query of the caller is, so that token,
//! pins, grants and redaction hold; its operators are made once and run over each slice of newly committed rows. So what
//! followers cost grows with new rows and with different statements, and neither with stored rows nor with followers. Only who comes back to rows that are new no longer reads stored ones.

mod catch_up;
mod event;
mod follower;
mod following;
mod hub;
mod open;
mod position;
mod reach;
mod ring;
mod source_task;
mod statement;

pub use follower::{FollowRequest, Follower};
pub use following::{FollowNumbers, Following};
pub use position::LastSeen;
pub use statement::whole_table;
