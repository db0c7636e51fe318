//! `tidegate serve --recover-from`: makes the data folder of the copies in an object store, and says what is lost.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use tidegate_service::{Options, StartError};
use tidegate_store::{RecoveryReport, StoreError};

use crate::outcome::Outcome;

/// Makes sure that the server keeps its copies where it is recovered from. Otherwise it would have none from then on.
///
/// # Errors
/// The setting is another address, or empty.
pub(crate) fn check(url: &str, options: &Options) -> Outcome {
    let kept = &options.store.copies_url;
    if kept == url {
        return Ok(());
    }
    let now = if kept.is_empty() { "is not set".to_owned() } else { format!("is {kept}") };
    Err(format!(
        "--recover-from {url}: the server goes on with the copies that it is recovered from, so [storage] url \
         (TIDEGATE_STORAGE_URL) must be the same address; it {now}"
    )
    .into())
}

/// Recovers the data folder, unless it has a catalog.
///
/// # Errors
/// As of [`tidegate_store::recover`].
pub(crate) async fn recover(url: String, data: PathBuf) -> Result<(), StartError> {
    let task = tokio::task::spawn_blocking(move || tidegate_store::recover(&url, &data)).await;
    let broken_off =
        |error| StoreError::Corrupt { what: "the recovery".to_owned(), reason: format!("it broke off: {error}") };
    match task.map_err(broken_off)?? {
        Some(report) => tell(&report),
        None => tracing::info!("the data folder has a catalog: nothing is recovered"),
    }
    Ok(())
}

/// Says what was recovered and what is lost, in the log and on standard output.
fn tell(report: &RecoveryReport) {
    let RecoveryReport { epoch, segments, rows, lost_rows, .. } = report;
    tracing::warn!(
        epoch,
        segments,
        rows,
        lost_segments = report.lost.len(),
        lost_rows,
        later_segments = report.later.len(),
        copy = report.copy,
        copied_at = time(report.taken_at),
        last_call = report.last_call,
        first_unflushed_call = report.first_unflushed,
        "the data folder was recovered from the object store; what was acknowledged after the last flush is lost"
    );
    lines(report).iter().for_each(|line| println!("{line}"));
}

fn lines(report: &RecoveryReport) -> Vec<String> {
    let RecoveryReport { epoch, copy, sources, segments, rows, bytes, last_call, .. } = report;
    let mut lines: Vec<String> =
        report.refused_copies.iter().map(|copy| format!("not used: {}: {}", copy.what, copy.problem)).collect();
    lines.push(format!(
        "recovered from {copy} of {}, as epoch {epoch}: {sources} sources, {segments} segments with {rows} rows, {bytes} bytes",
        time(report.taken_at)
    ));
    if !report.later.is_empty() {
        let rows: u64 = report.later.iter().filter_map(|note| note.rows).sum();
        lines.push(format!(
            "{} segments with {rows} rows that were put after that copy are there, too",
            report.later.len()
        ));
    }
    lines.push(match report.first_unflushed {
        Some(first) => format!(
            "lost at most: events acknowledged after {}, and those of the calls from number {first} on that were in no segment \
             yet; the last call known of has the number {last_call}",
            time(report.taken_at)
        ),
        None => format!(
            "lost at most: events acknowledged after {}; until then all were in segments, up to the call with the number \
             {last_call}",
            time(report.taken_at)
        ),
    });
    for lost in &report.lost {
        lines.push(format!("lost: {}: {}", lost.what, lost.problem));
    }
    if !report.lost.is_empty() {
        lines.push(format!(
            "{} segments with {} rows are lost: queries that need them fail; tidegate repair sets them aside",
            report.lost.len(),
            report.lost_rows
        ));
    }
    for note in &report.left {
        lines.push(format!("in quarantine: segment {}: {}", note.segment, note.reason));
    }
    lines
}

/// A time in microseconds since 1970 as text.
fn time(micros: i64) -> String {
    DateTime::<Utc>::from_timestamp_micros(micros)
        .map_or_else(|| micros.to_string(), |time| time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_said() {
        let report = RecoveryReport {
            epoch: 3,
            copy: "catalog/2-9.sqlite.zst".to_owned(),
            taken_at: 1_763_633_702_000_000,
            last_call: 90,
            first_unflushed: Some(88),
            ..RecoveryReport::default()
        };
        let said = lines(&report).join("\n");
        assert!(said.contains("2025-11-20T10:15:02.000Z") && said.contains("from number 88 on"), "{said}");
        let said = lines(&RecoveryReport { first_unflushed: None, ..report }).join("\n");
        assert!(said.contains("until then all were in segments, up to the call with the number 90"), "{said}");
    }
}
