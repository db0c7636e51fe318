//! `[alerts]`: how alerts are run, and where their messages may go.

use tidegate_model::{Access, Setting, count, time};

use crate::options::AlertOptions;

pub(super) const ALERTS: &[Setting<AlertOptions>] = &[
    Setting {
        name: "run",
        what: "whether alerts are run by their schedule and messages are sent",
        access: Access::Flag { get: |o: &AlertOptions| o.run, set: |o, flag| o.run = flag },
    },
    count!("most", "alerts of all endpoints together", 0, 100_000, AlertOptions, most),
    count!("concurrency", "alerts that are run at once", 1, 64, AlertOptions, concurrency),
    count!(
        "send_concurrency",
        "messages that are sent at once, half of them to one host",
        1,
        64,
        AlertOptions,
        send_concurrency
    ),
    time!(
        "send_time",
        "how long a receiver may take, from the look-up of its name to its answer",
        100,
        60_000,
        AlertOptions,
        send_time
    ),
    time!("connect_time", "how long connecting to a receiver may take", 100, 60_000, AlertOptions, connect_time),
    count!("attempts", "how often a message is tried before it is given up", 1, 20, AlertOptions, attempts),
    time!(
        "retry_wait",
        "the pause after the first attempt that failed; it doubles with each, up to an hour",
        10,
        3_600_000,
        AlertOptions,
        retry_wait
    ),
    networks!(
        "allow_networks",
        "networks that receivers may be in though they are not of the public internet; empty is none",
        AlertOptions,
        allow_networks
    ),
];
