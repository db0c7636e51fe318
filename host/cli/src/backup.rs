//! `tidegate backup` and `tidegate restore`: copies a data folder, and restores it from a copy.

use std::path::PathBuf;

use clap::Args;
use tidegate_store::BackupReport;

use crate::outcome::Outcome;
use crate::serve::log_object_stores;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The data folder; a server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// Where the copy goes: a folder that does not exist, or is empty
    #[arg(long)]
    to: PathBuf,
    /// Leave the segments out, which have copies in an object store: the catalog, the list of segments, and the events that are
    /// in none yet
    #[arg(long)]
    catalog_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The copy
    #[arg(long)]
    from: PathBuf,
    /// Where segments are that the copy lacks: the address that storage.url had. Nothing is changed there
    #[arg(long, value_name = "URL")]
    copies: Option<String>,
    /// The data folder to make: it must not exist, or be empty
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
}

pub(crate) fn backup(arguments: &BackupArguments) -> Outcome {
    if arguments.catalog_only {
        let report = tidegate_store::backup_catalog(&arguments.data_dir, &arguments.to)?;
        println!(
            "the catalog, {} bytes, was copied to {}; it names {} segments with {} rows, which tidegate restore --copies fetches \
             as long as the object store has them",
            report.bytes,
            arguments.to.display(),
            report.segments,
            report.rows
        );
        return Ok(());
    }
    let report = tidegate_store::backup(&arguments.data_dir, &arguments.to)?;
    tell(&report, &format!("copied to {}", arguments.to.display()));
    Ok(())
}

pub(crate) fn restore(arguments: &RestoreArguments) -> Outcome {
    let report = match &arguments.copies {
        Some(url) => {
            log_object_stores();
            tidegate_store::restore_from_copies(&arguments.from, &arguments.data_dir, url)?
        }
        None => tidegate_store::restore(&arguments.from, &arguments.data_dir)?,
    };
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
