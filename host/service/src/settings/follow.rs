//! `[follow]`: queries whose answer is followed.

use tidegate_model::{GIB, MIB, Setting, bytes, count, time};

use crate::options::FollowOptions;

pub(super) const FOLLOW: &[Setting<FollowOptions>] = &[
    count!(
        "followers",
        "queries that are followed at once; 0 lets nobody follow",
        0,
        1_000_000,
        FollowOptions,
        followers
    ),
    count!("followers_of_token", "of these, the most of one token", 0, 1_000_000, FollowOptions, followers_of_token),
    bytes!(
        "memory",
        "new rows that followers have yet to read, half of it as they were sent in",
        MIB,
        1024 * GIB,
        FollowOptions,
        memory
    ),
    time!("interval", "how often new rows are looked at, at most", 10, 60_000, FollowOptions, interval),
    time!("heartbeat", "after how long without a row a sign of life is sent", 100, 600_000, FollowOptions, heartbeat),
];
