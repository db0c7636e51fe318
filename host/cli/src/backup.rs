//! `tidegate backup` and `tidegate restore`: copies a data folder, and restores it from a copy.

use std::path::PathBuf;

use clap::Args;
use tidegate_store::BackupReport;

use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The data folder; a server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// Where the copy goes: a folder that does not exist, or is empty
    #[arg(long)]
    to: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The copy
    #[arg(long)]
    from: PathBuf,
    /// The data folder to make: it must not exist, or be empty
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
}

pub(crate) fn backup(arguments: &BackupArguments) -> Outcome {
    let report = tidegate_store::backup(&arguments.data_dir, &arguments.to)?;
    tell(&report, &format!("copied to {}", arguments.to.display()));
    Ok(())
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Outcome {
    let report = tidegate_store::restore(&arguments.from, &arguments.data_dir)?;
    tell(&report, &format!("restored to {}", arguments.data_dir.display()));
    Ok(())
}

fn tell(report: &BackupReport, what: &str) {
    let BackupReport { sources, segments, rows, bytes, dropped } = report;
    println!("{sources} sources, {segments} segments with {rows} rows, {bytes} bytes {what}");
    if *dropped > 0 {
        println!("{dropped} segments were dropped by retention meanwhile");
    }
}
