//! `tidegate verify` and `tidegate repair`: finds damage in a data folder, and sets damaged parts aside.

use std::path::PathBuf;

use clap::Args;
use tidegate_store::{RepairReport, SetAside};

use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The data folder; no server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArguments {
    /// The data folder; no server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// Make a catalog where it is missing, of what the segments say: sources and their logs, without
    /// endpoints, tokens and settings, and without events that were in no segment yet
    #[arg(long)]
    rebuild_catalog: bool,
}

/// Verifies a data folder and prints what is wrong.
///
/// # Errors
/// Something is damaged. The process then ends with exit code 1.
pub(crate) fn verify(arguments: &VerifyArguments) -> Outcome {
    let report = tidegate_store::verify(&arguments.data_dir)?;
    for finding in &report.findings {
        println!("{}: {}", finding.what, finding.problem);
    }
    for note in &report.set_aside {
        println!("in quarantine: {}", line(note));
    }
    println!("{} segments with {} rows, {} bytes were read", report.segments, report.rows, report.bytes);
    if report.without_checksum > 0 {
        println!(
            "{} of them have no checksums, because an older version wrote them: only their ends were checked",
            report.without_checksum
        );
    }
    match report.findings.len() {
        0 => {
            println!("nothing is damaged");
            Ok(())
        }
        n => Err(format!("{n} things are wrong; tidegate repair sets damaged segments aside").into()),
    }
}

pub(crate) fn repair(arguments: &RepairArguments) -> Outcome {
    let report = if arguments.rebuild_catalog {
        tidegate_store::rebuild_catalog(&arguments.data_dir)?
    } else {
        tidegate_store::repair(&arguments.data_dir)?
    };
    tell(&report);
    if arguments.rebuild_catalog {
        println!(
            "the catalog was made again; endpoints, tokens and settings are gone: the next start makes those of a \
             new folder"
        );
    }
    Ok(())
}

fn tell(report: &RepairReport) {
    if let Some(log) = &report.log {
        let events = log.events.map_or_else(|| "an unknown number of".to_owned(), |events| events.to_string());
        println!(
            "the write-ahead file of the catalog was damaged at frame {}: {} transactions are lost, with {events} \
             events that were in no segment yet; a copy is in quarantine",
            log.frame, log.transactions
        );
    }
    for (what, notes) in
        [("set aside", &report.set_aside), ("taken back", &report.taken_back), ("stays in quarantine", &report.left)]
    {
        for note in notes {
            println!("{what}: {}", line(note));
        }
    }
    let rows = |notes: &[SetAside]| notes.iter().filter_map(|note| note.rows).sum::<u64>();
    println!(
        "{} segments with {} rows set aside, {} with {} rows taken back, {} with {} rows stay in quarantine",
        report.set_aside.len(),
        rows(&report.set_aside),
        report.taken_back.len(),
        rows(&report.taken_back),
        report.left.len(),
        rows(&report.left)
    );
    if report.completed > 0 {
        println!("{} flushes that were cut off were completed", report.completed);
    }
}

fn line(note: &SetAside) -> String {
    let source = note.source_name.as_ref().map_or_else(|| note.source.to_string(), |name| format!("`{name}`"));
    let rows = note.rows.map_or_else(|| "an unknown number of".to_owned(), |rows| rows.to_string());
    let reason = if note.reason.is_empty() { String::new() } else { format!(": {}", note.reason) };
    format!("segment {} of source {source} with {rows} rows{reason}", note.segment)
}
