//! Following a query: its newest rows, and then each new one as it is committed.
//!
//! - `position`: where a follower is, as the id of an event;
//! - `event`: the events of a stream;
//! - `ring`: the newest rows of a statement, encoded once;
//! - `statement`: planning a statement, and running it over new rows;
//! - `hub`: one statement for all of its followers;
//! - `following`: all followers of a service, and their bounds;
//! - `source_task`: looks at the new rows of a source, for all hubs;
//! - `follower`: the stream of one caller;
//! - `open`: from a request to a stream.
//!
//! A statement that is followed is a filter over one source. It is planned as any query of the caller is, so that token,
//! pins, grants and redaction hold; its operators are made once and run over each slice of newly committed rows. So what
//! followers cost grows with new rows and with different statements, and neither with stored rows nor with followers.

mod event;
mod follower;
mod following;
mod hub;
mod open;
mod position;
mod ring;
mod source_task;
mod statement;

pub use follower::{FollowRequest, Follower};
pub use following::{FollowNumbers, Following};
pub use position::LastSeen;
pub use statement::whole_table;
