//! What a source holds and which columns it has, for callers who explore before they query.

use uuid::Uuid;

use crate::{
    error::Result,
    field_names::METADATA,
    schema::kind::{Fields, Kind, Scalar},
    source_info::SourceInfo,
    store::Store,
};

/// How much a source holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceDescription {
    /// Name, identity and limits.
    pub info: SourceInfo,
    /// All rows, in segments and in memory.
    pub rows: u64,
    /// Bytes of the segments' files.
    pub bytes: u64,
    /// Segments.
    pub segments: usize,
    /// Rows in memory that no segment holds yet; they are in the write-ahead log.
    pub memory_rows: u64,
    /// Bytes of those rows, as JSON.
    pub memory_bytes: u64,
    /// The smallest `timestamp`, in microseconds; absent when there is no row.
    pub oldest: Option<i64>,
    /// The largest `timestamp`.
    pub newest: Option<i64>,
    /// Fields that have a column: a leaf counts one, a record two.
    pub fields: usize,
    /// The most fields that may have one.
    pub max_fields: usize,
    /// Whether some event has had fields without a column, which are read from the overflow.
    pub overflows: bool,
}

impl Store {
    /// How much a source holds, according to the catalog and the memory. Opens no file. Shreds what is still JSON in
    /// memory, which may take some milliseconds.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`](crate::StoreError::UnknownSource).
    pub fn describe(&self, id: Uuid) -> Result<SourceDescription> {
        let source = self.get(id)?;
        let snapshot = source.snapshot()?;
        let (segments, memory) = (&snapshot.segments, &snapshot.memory);
        let memory_rows: u64 = memory.iter().map(|batch| batch.rows.num_rows() as u64).sum();
        let oldest = segments.iter().map(|s| s.min_time).chain(memory.iter().map(|batch| batch.min_time)).min();
        let newest = segments.iter().map(|s| s.max_time).chain(memory.iter().map(|batch| batch.max_time)).max();
        Ok(SourceDescription {
            fields: snapshot.shape.count(),
            max_fields: self.options.max_fields,
            overflows: snapshot.shape.overflows(),
            info: source.info().as_ref().clone(),
            rows: segments.iter().map(|segment| segment.rows as u64).sum::<u64>() + memory_rows,
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments: segments.len(),
            memory_rows,
            memory_bytes: memory.iter().map(|batch| batch.bytes as u64).sum(),
            oldest,
            newest,
        })
    }

    /// The paths of a source with their types, in the order in which they were first seen, including those that are
    /// only in memory. A path is written with dots (`metadata.request.path`), a type in the terms of BigQuery:
    /// `STRING`, `INT64`, `FLOAT64`, `BOOL`, `TIMESTAMP`, `ARRAY<...>` of those, and `ARRAY<STRUCT>` for a record,
    /// whose fields follow it. A path that has held several kinds of values is a `STRING`. `metadata.*` stands for
    /// fields without a column. `metadata` is always listed. May take some milliseconds, as [`Self::describe`].
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`](crate::StoreError::UnknownSource).
    pub fn schema(&self, id: Uuid) -> Result<Vec<(String, String)>> {
        let snapshot = self.get(id)?.snapshot()?;
        let fields = &snapshot.shape.fields;
        let mut paths = Vec::new();
        list(fields, "", &mut paths);
        if fields.get(METADATA).is_none() {
            paths.push((METADATA.to_owned(), "ARRAY<STRUCT>".to_owned()));
        }
        Ok(paths)
    }
}

fn list(fields: &Fields, prefix: &str, paths: &mut Vec<(String, String)>) {
    let below = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
    if fields.rest {
        paths.push((below("*"), "STRING".to_owned()));
    }
    for (name, kind) in fields.iter() {
        let path = below(name);
        paths.push((path.clone(), type_name(kind)));
        if let Kind::Record { fields, .. } = kind {
            list(fields, &path, paths);
        }
    }
}

fn type_name(kind: &Kind) -> String {
    match kind {
        // Values of several types are read as text.
        Kind::Scalar { mixed: true, .. } | Kind::List { mixed: true, .. } => "STRING".to_owned(),
        Kind::Scalar { ty, .. } => scalar_name(*ty).to_owned(),
        Kind::List { ty, .. } => format!("ARRAY<{}>", scalar_name(*ty)),
        Kind::Record { .. } => "ARRAY<STRUCT>".to_owned(),
    }
}

fn scalar_name(ty: Scalar) -> &'static str {
    match ty {
        Scalar::Bool => "BOOL",
        Scalar::Int => "INT64",
        Scalar::Float => "FLOAT64",
        Scalar::Text => "STRING",
        Scalar::Time => "TIMESTAMP",
    }
}
