//! `tidegate retention`: what retention waits for, and the operator's word.

use std::path::PathBuf;

use clap::Args;
use tidegate_store::{Catalog, RetentionState, RetentionWord};

use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The data folder; a server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// The clock of this machine is right, and was wrong before it jumped: no log is older by the jump
    #[arg(long, conflicts_with = "time_has_passed")]
    clock_is_right: bool,
    /// The clock of this machine is right, and the time by which it jumped has passed: all logs from before are older by it
    #[arg(long)]
    time_has_passed: bool,
    /// What is too old now may go at once, however much of its source it is
    #[arg(long)]
    drop_at_once: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let catalog = Catalog::open_beside(&arguments.data_dir)?;
    let Arguments { clock_is_right, time_has_passed, drop_at_once, .. } = *arguments;
    if clock_is_right || time_has_passed {
        catalog.say_of_retention(RetentionWord::ClockIsRight { time_has_passed })?;
    }
    if drop_at_once {
        catalog.free_retention()?;
    }
    if clock_is_right || time_has_passed || drop_at_once {
        println!("the next run of retention takes this word, a minute from now at most while a server runs");
        return Ok(());
    }
    tell(&catalog.retention_state()?);
    Ok(())
}

fn tell(state: &RetentionState) {
    let RetentionState { clock_ahead_seconds, waiting } = state;
    if *clock_ahead_seconds > 0 {
        println!(
            "the clock of this machine is {clock_ahead_seconds} seconds ahead of the last time that is known of; logs do not grow \
             older by that. If the clock is wrong, set it. If it is right: --time-has-passed if the server was off for so long, \
             --clock-is-right if the clock was wrong before"
        );
    }
    for source in waiting {
        println!(
            "source {source}: more than half of its logs is too old at once; half of it goes each day, or all with \
             --drop-at-once"
        );
    }
    if *clock_ahead_seconds == 0 && waiting.is_empty() {
        println!("retention waits for nothing");
    }
}
