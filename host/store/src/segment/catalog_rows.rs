//! The rows of the catalog's table `segments`.

use std::{
    path::Path,
    sync::{Arc, OnceLock, atomic::AtomicU8},
};

use datafusion::arrow::datatypes::Schema;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use crate::{
    data_folder::paths::segment_file,
    error::{Result, StoreError},
    schema::{run_tenants::RunTenants, tenant_path::TenantPath},
    segment::{
        handle::{FileRemoval, Segment, SegmentPlace},
        run::Run,
    },
};

/// Inserts the row of a segment, in a transaction of the caller.
pub(crate) fn register(conn: &Connection, source_key: i64, segment: &Segment, schema: &Schema) -> Result<()> {
    let runs = segment.has_runs.then(|| serde_json::to_string(&segment.runs)).transpose();
    let runs = runs.map_err(|error| StoreError::corrupt("the runs of a segment", error))?;
    let columns: serde_json::Map<_, _> =
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string().into())).collect();
    conn.prepare_cached(
        "INSERT INTO segments (id, source, rows, bytes, min_time, max_time, columns, created_at, checksum,
             first_seq, last_seq, runs, tenant_path)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        segment.id,
        source_key,
        segment.rows as i64,
        segment.bytes as i64,
        segment.min_time,
        segment.max_time,
        serde_json::Value::Object(columns).to_string(),
        segment.created_at,
        segment.checksum,
        segment.seqs.map(|(first, _)| first),
        segment.seqs.map(|(_, last)| last),
        runs,
        segment.tenant_path.to_text(),
    ])?;
    Ok(())
}

/// The segments of a source, as the catalog names them. Of each file only the presence and the length are checked.
pub(crate) fn load(conn: &Connection, source_key: i64, source: Uuid, folder: &Path) -> Result<Vec<Arc<Segment>>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, rows, bytes, min_time, max_time, projects, created_at, checksum, first_seq, last_seq, runs,
             tenant_path
         FROM segments
         WHERE source = ?1 ORDER BY max_time DESC",
    )?;
    let read = |row: &Row<'_>| -> rusqlite::Result<(Segment, [Option<String>; 3])> {
        let id: Uuid = row.get(0)?;
        let segment = Segment {
            id,
            source,
            place: SegmentPlace::File(folder.join(segment_file(id))),
            rows: row.get::<_, i64>(1)? as usize,
            bytes: row.get::<_, i64>(2)? as u64,
            min_time: row.get(3)?,
            max_time: row.get(4)?,
            runs: Vec::new(),
            has_runs: false,
            tenant_path: TenantPath::default(),
            created_at: row.get(6)?,
            checksum: row.get(7)?,
            seqs: Option::zip(row.get(8)?, row.get(9)?),
            row_places: OnceLock::new(),
            search_places: OnceLock::new(),
            damage: OnceLock::new(),
            removal: AtomicU8::new(FileRemoval::Keep as u8),
        };
        Ok((segment, [row.get(5)?, row.get(10)?, row.get(11)?]))
    };
    let mut segments = Vec::new();
    for row in statement.query_map([source_key], read)? {
        let (mut segment, [projects, runs, tenant_path]) = row?;
        let id = segment.id;
        let wrong = |reason: String| StoreError::corrupt(format!("the catalog row of segment {id}"), reason);
        segment.tenant_path = TenantPath::of_text(tenant_path.as_deref()).map_err(|error| wrong(error.to_string()))?;
        match runs {
            Some(runs) => {
                segment.runs = serde_json::from_str(&runs).map_err(|error| wrong(error.to_string()))?;
                segment.has_runs = true;
                if segment.runs.iter().map(|run| run.rows).sum::<usize>() != segment.rows {
                    return Err(wrong("its runs have other rows".to_owned()));
                }
            }
            None => {
                let names = projects.map(|names| serde_json::from_str(&names)).transpose();
                let names = names.map_err(|error| wrong(error.to_string()))?;
                let Segment { rows, min_time, max_time, .. } = segment;
                let tenants = names.map_or(RunTenants::Any, RunTenants::Listed);
                segment.runs = vec![Run { rows, groups: 0, min_time, max_time, tenants }];
            }
        }
        segment.check_length();
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}
