//! Random statements over rows cut into segments and memory, run by workers that fail at random: each answer is that of
//! an evaluator and of the same rows in one batch, or an error that says that a worker failed. Nothing is held afterwards.

#[path = "../../../sql/tests/property/cuts/mod.rs"]
mod cuts;
#[path = "failing/mod.rs"]
mod engine;
#[path = "../../../sql/tests/property/tape.rs"]
mod tape;

use engine as excuse;
use engine::{COUNTS, counted, wait_until_idle};

/// Its name is the last one: with one thread it runs after the other tests.
#[test]
fn workers_failed_and_nothing_is_left() {
    let began = std::time::Instant::now();
    let (mut last, mut since) = (0, began);
    // The other tests of this module run at the same time.
    while counted(&COUNTS.remote) < 150 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        if counted(&COUNTS.remote) > last {
            (last, since) = (counted(&COUNTS.remote), std::time::Instant::now());
        }
        assert!(since.elapsed().as_secs() < 120, "{COUNTS:?}");
    }
    wait_until_idle();
    eprintln!("{COUNTS:?}");
    let excused = counted(&COUNTS.excused);
    assert!(counted(&COUNTS.refused) > 50 && counted(&COUNTS.failed_before_rows) > 50, "{COUNTS:?}");
    assert!(excused > 0 && excused <= counted(&COUNTS.failed_after_rows) + counted(&COUNTS.failed_before_rows));
}
