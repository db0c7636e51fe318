//! `tidegate verify` and `tidegate repair`: finds damage in a data folder, and sets damaged parts aside.

use std::path::PathBuf;

use clap::Args;
use tidegate_store::{CopiesReport, RepairReport, SetAside};

use crate::outcome::Outcome;
use crate::serve::log_object_stores;

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The data folder; no server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// Compare each segment with its copy in the object store at this address, too
    #[arg(long, value_name = "URL")]
    copies: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArguments {
    /// The data folder; no server may be running in it
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// Fetch segments that are damaged or missing from their copies in the object store at this address
    #[arg(long, value_name = "URL", conflicts_with = "rebuild_catalog")]
    copies: Option<String>,
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
    let in_copies = match &arguments.copies {
        Some(url) => {
            log_object_stores();
            compare(&tidegate_store::verify_copies(&arguments.data_dir, url)?)
        }
        None => 0,
    };
    match (report.findings.len(), in_copies) {
        (0, 0) => {
            println!("nothing is damaged");
            Ok(())
        }
        (0, n) => Err(format!(
            "{n} copies are missing or damaged: a server puts those that are missing, so delete the damaged ones"
        )
        .into()),
        (n, _) => Err(format!("{n} things are wrong; tidegate repair sets damaged segments aside").into()),
    }
}

/// Prints what is wrong with copies; returns how many are.
fn compare(report: &CopiesReport) -> usize {
    for finding in &report.findings {
        println!("the copy of {}: {}", finding.what, finding.problem);
    }
    println!(
        "{} segments with {} bytes were compared with their copies; {} copies of the catalog are there",
        report.segments, report.bytes, report.catalogs
    );
    if report.without_checksum > 0 {
        println!("{} of them have no checksums: only their lengths were compared", report.without_checksum);
    }
    for orphan in &report.orphans {
        println!("belongs to nothing: {orphan}");
    }
    if !report.orphans.is_empty() {
        println!(
            "{} objects with {} bytes belong to nothing: a server deletes them when they are a day old",
            report.orphans.len(),
            report.orphan_bytes
        );
    }
    report.findings.len()
}

pub(crate) fn repair(arguments: &RepairArguments) -> Outcome {
    let report = match &arguments.copies {
        _ if arguments.rebuild_catalog => tidegate_store::rebuild_catalog(&arguments.data_dir)?,
        Some(url) => {
            log_object_stores();
            tidegate_store::repair_from_copies(&arguments.data_dir, url)?
        }
        None => tidegate_store::repair(&arguments.data_dir)?,
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
    for (what, notes) in [
        ("set aside", &report.set_aside),
        ("fetched from its copy", &report.fetched),
        ("taken back", &report.taken_back),
        ("stays in quarantine", &report.left),
    ] {
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
    if !report.fetched.is_empty() {
        println!("{} segments with {} rows fetched from their copies", report.fetched.len(), rows(&report.fetched));
    }
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
