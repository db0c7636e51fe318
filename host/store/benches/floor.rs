//! The least that the questions of the race cost: reading and decoding the columns that they name, and nothing else.
//!
//! ```text
//! cargo bench -p tidegate-store -p tidegate --bench floor -- FOLDER
//! ```
//!
//! `FOLDER` is a data folder that `cargo xtask bench peers` has loaded. Each line is one set of columns, of the whole source or of its
//! largest project only: how many rows and bytes they have, and what they take on one thread, without a query, a condition or the
//! checks of a segment: the bytes read from the page cache, a column chunk at a time, and decoded into Arrow by the reader that the
//! engine uses. Both are measured apart and added up.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark may panic")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

// The one of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 7;
/// Rows of a batch, as in a query.
const BATCH: usize = 8_192;

const EDGE: &str = "cloudflare.logs.prod";
const OUTPUT: &str = "deno-subhosting-events";

/// Questions of the race, and what they read of which source: of the largest project only, or of all.
const QUESTIONS: [(&str, &str, bool, &[&str]); 10] = [
    ("status-histogram", EDGE, false, &["metadata.response.status_code"]),
    ("top-agents", EDGE, false, &["metadata.request.headers.user_agent"]),
    ("daily-users", EDGE, false, &["timestamp", "metadata.request.sb.auth_user"]),
    ("p95-by-route", EDGE, false, &["metadata.request.path", "metadata.response.origin_time"]),
    ("text", EDGE, false, &["event_message"]),
    (
        "errors-by-path",
        EDGE,
        true,
        &["metadata.request.path", "metadata.response.status_code", "metadata.response.origin_time"],
    ),
    ("errors-by-path, its condition", EDGE, true, &["metadata.response.status_code"]),
    ("join, edge", EDGE, true, &["metadata.request_id", "metadata.response.status_code"]),
    ("join, functions", OUTPUT, true, &["metadata.request_id", "metadata.function_id", "metadata.level"]),
    ("api-counts-daily", EDGE, true, &["timestamp", "metadata.request.url"]),
];

/// A file of a source, with the row groups that are read of it.
struct Part {
    path: PathBuf,
    footer: ArrowReaderMetadata,
    groups: Vec<usize>,
}

fn main() {
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap();
    let files = files(Path::new(&folder));
    println!("| Columns of | rows | MB | read, ms | read and decoded, ms | ns a row |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, source, of_project, columns) in QUESTIONS {
        let parts = parts(files.get(source).unwrap(), of_project);
        let row_groups =
            parts.iter().flat_map(|part| part.groups.iter().map(|group| part.footer.metadata().row_group(*group)));
        let rows: i64 = row_groups.map(RowGroupMetaData::num_rows).sum();
        let ranges = |part: &Part| -> Vec<(u64, u64)> {
            let chunks = part.groups.iter().flat_map(|group| part.footer.metadata().row_group(*group).columns());
            let named = chunks.filter(|chunk| columns.contains(&chunk.column_path().string().as_str()));
            named.map(|chunk| chunk.byte_range()).collect()
        };
        let bytes: u64 = parts.iter().flat_map(ranges).map(|(_, length)| length).sum();
        let read = median(|| {
            for part in &parts {
                let file = File::open(&part.path).unwrap();
                for (start, length) in ranges(part) {
                    let mut chunk = vec![0; usize::try_from(length).unwrap()];
                    file.read_exact_at(&mut chunk, start).unwrap();
                }
            }
        });
        let files: Vec<Bytes> = parts.iter().map(|part| std::fs::read(&part.path).unwrap().into()).collect();
        let decoded = median(|| {
            let mut found = 0;
            for (part, file) in parts.iter().zip(&files) {
                let mask =
                    ProjectionMask::columns(part.footer.metadata().file_metadata().schema_descr(), columns.to_vec());
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), part.footer.clone())
                    .with_projection(mask)
                    .with_row_groups(part.groups.clone())
                    .with_batch_size(BATCH);
                found += reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
            }
            assert_eq!(found as i64, rows);
        });
        let both = read + decoded;
        println!(
            "| {name} | {rows} | {:.1} | {:.1} | {:.1} | {:.1} |",
            bytes as f64 / 1e6,
            read.as_secs_f64() * 1e3,
            both.as_secs_f64() * 1e3,
            both.as_secs_f64() * 1e9 / rows as f64,
        );
    }
}

/// The segments of each source.
fn files(folder: &Path) -> BTreeMap<String, Vec<(PathBuf, ArrowReaderMetadata)>> {
    let mut files: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for source in std::fs::read_dir(folder.join("segments")).unwrap() {
        for file in std::fs::read_dir(source.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "parquet") {
                let footer = ArrowReaderMetadata::load(&File::open(&path).unwrap(), ArrowReaderOptions::new()).unwrap();
                let said = footer.metadata().file_metadata().key_value_metadata().unwrap();
                let name =
                    said.iter().find(|entry| entry.key == "tidegate.source_name").unwrap().value.clone().unwrap();
                files.entry(name).or_default().push((path, footer));
            }
        }
    }
    files
}

/// The row groups of all rows, or those of the project that has the most of them.
fn parts(files: &[(PathBuf, ArrowReaderMetadata)], of_project: bool) -> Vec<Part> {
    let mut rows: BTreeMap<String, i64> = BTreeMap::new();
    for (_, footer) in files {
        for group in footer.metadata().row_groups() {
            if let Some(project) = project(footer.metadata(), group) {
                *rows.entry(project).or_default() += group.num_rows();
            }
        }
    }
    let largest = rows.into_iter().max_by_key(|(_, rows)| *rows).map(|(project, _)| project);
    let is_read =
        |footer: &ParquetMetaData, group: &usize| !of_project || project(footer, footer.row_group(*group)) == largest;
    let part = |(path, footer): &(PathBuf, ArrowReaderMetadata)| Part {
        path: path.clone(),
        footer: footer.clone(),
        groups: (0..footer.metadata().num_row_groups()).filter(|group| is_read(footer.metadata(), group)).collect(),
    };
    files.iter().map(part).filter(|part| !part.groups.is_empty()).collect()
}

/// The project that all rows of a row group have, if there is one.
fn project(footer: &ParquetMetaData, group: &RowGroupMetaData) -> Option<String> {
    let columns = footer.file_metadata().schema_descr().columns();
    let column = columns.iter().position(|column| column.path().parts() == ["project"])?;
    let Some(Statistics::ByteArray(known)) = group.column(column).statistics() else { return None };
    let (least, most) = (known.min_opt()?, known.max_opt()?);
    (least == most).then(|| String::from_utf8_lossy(least.data()).into_owned())
}

fn median(run: impl Fn()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[RUNS / 2]
}
