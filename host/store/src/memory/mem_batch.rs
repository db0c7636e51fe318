//! A batch of rows in memory: what queries read before a segment holds the rows.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch, UInt32Array, new_null_array},
        compute::{concat_batches, take_record_batch},
        datatypes::{DataType, Field, Schema, SchemaRef, TimestampMicrosecondType},
    },
    error::Result,
};

use crate::{
    arrays::schema_evolution::{adapt, join_fields, optional},
    field_names::{OVERFLOW, TIMESTAMP},
    memory::{places::Places, tenant_column::TenantColumn},
    overflow::{sparse_columns, sparse_paths::SparsePaths, spill::spill},
    schema::{run_tenants::RunTenants, tenant_path::TenantPath},
};

/// Rows in the columns that they have.
#[derive(Debug)]
pub(crate) struct MemBatch {
    pub(crate) rows: RecordBatch,
    /// Whether the newest row comes first. Batches of calls are as they came, until a query reads them or they are joined:
    /// mostly they are joined before, which sorts them too.
    pub(crate) is_sorted: bool,
    /// Bytes of the events as JSON.
    pub(crate) bytes: usize,
    /// The first and last write-ahead row that the rows came from.
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    /// The tenants of the rows: their values at this path. Queries of others leave the batch out.
    pub(crate) tenants: RunTenants,
    pub(crate) tenant_path: Arc<TenantPath>,
    held: usize,
}

impl MemBatch {
    /// Of rows as they came.
    pub(crate) fn new(rows: RecordBatch, bytes: usize, seqs: (i64, i64), tenant_path: &Arc<TenantPath>) -> MemBatch {
        let tenants = TenantColumn::of(&rows, tenant_path).listed();
        MemBatch::of(rows, bytes, seqs, (tenants, tenant_path))
    }

    fn of(
        rows: RecordBatch,
        bytes: usize,
        (first_seq, last_seq): (i64, i64),
        (tenants, tenant_path): (RunTenants, &Arc<TenantPath>),
    ) -> MemBatch {
        let tenant_path = Arc::clone(tenant_path);
        let times = times(&rows);
        let is_sorted = times.is_sorted_by(|a, b| a >= b);
        let min_time = times.iter().min().copied().unwrap_or(0);
        let max_time = times.iter().max().copied().unwrap_or(0);
        let held = rows.get_array_memory_size();
        MemBatch { rows, is_sorted, bytes, first_seq, last_seq, min_time, max_time, tenants, tenant_path, held }
    }

    /// The same rows, the newest first.
    pub(crate) fn sorted(&self) -> Result<MemBatch> {
        let rows = sort(self.rows.clone())?;
        Ok(MemBatch::of(rows, self.bytes, (self.first_seq, self.last_seq), (self.tenants.clone(), &self.tenant_path)))
    }

    /// The same rows as those of the call with this number.
    pub(crate) fn of_call(&self, seq: i64) -> Result<MemBatch> {
        Ok(MemBatch {
            rows: Places::of_call(&self.rows, seq)?,
            first_seq: seq,
            last_seq: seq,
            tenants: self.tenants.clone(),
            tenant_path: Arc::clone(&self.tenant_path),
            ..*self
        })
    }

    /// Rows as they arrived, for followers. They are not sorted, are no part of the source's memory, and no query leaves
    /// them out by their tenants.
    pub(crate) fn as_arrived(rows: RecordBatch) -> MemBatch {
        let (tenants, tenant_path) = (RunTenants::Any, Arc::default());
        let held = rows.get_array_memory_size();
        let (is_sorted, bytes, first_seq, last_seq, min_time, max_time) = (false, 0, 0, 0, 0, 0);
        MemBatch { rows, is_sorted, bytes, first_seq, last_seq, min_time, max_time, tenants, tenant_path, held }
    }

    /// Several batches as one, in the narrowest schema that holds them all. Columns with few values for their size are
    /// moved to the overflow.
    pub(crate) fn join(parts: &[Arc<MemBatch>]) -> Result<MemBatch> {
        let parts = &newest_first(parts);
        let (schema, rows) = conformed(parts)?;
        // Both are quicker together than taking the rows of all batches in order at once.
        let rows = sort(concat_batches(&schema, &rows)?)?;
        let bytes = parts.iter().map(|part| part.bytes).fold(0, usize::saturating_add);
        let path = parts.iter().max_by_key(|part| part.last_seq).map(|part| Arc::clone(&part.tenant_path));
        let path = path.unwrap_or_default();
        let tenants = match parts.iter().all(|part| part.tenant_path == path) {
            true => RunTenants::of_all(parts.iter().map(|part| &part.tenants)),
            // The source has declared another one since.
            false => TenantColumn::of(&rows, &path).listed(),
        };
        Ok(MemBatch::of(rows, bytes, seqs(parts), (tenants, &path)))
    }

    /// Bytes that the columns take in memory.
    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

/// The first and last write-ahead row of all.
pub(super) fn seqs(parts: &[Arc<MemBatch>]) -> (i64, i64) {
    let first = parts.iter().map(|part| part.first_seq).min().unwrap_or(0);
    let last = parts.iter().map(|part| part.last_seq).max().unwrap_or(0);
    (first, last)
}

/// The rows of several batches in the narrowest schema that holds them all. Columns with few values for their size are
/// moved to the overflow.
pub(super) fn conformed(parts: &[Arc<MemBatch>]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let rows: Vec<&RecordBatch> = parts.iter().map(|part| &part.rows).collect();
    let bytes = parts.iter().map(|part| part.bytes).fold(0, usize::saturating_add);
    let chosen = sparse_columns::choose(&rows, bytes);
    let spilled = parts.iter().map(|part| spill(&part.rows, &chosen)).collect::<Result<Vec<_>>>()?;
    let schema = joined_schema(&spilled.iter().map(RecordBatch::schema).collect::<Vec<_>>());
    let rows = spilled.iter().map(|rows| conform(rows, &schema)).collect::<Result<Vec<_>>>()?;
    Ok((schema, rows))
}

/// The batches in the order in which their rows need no sorting, if there is one: each has only older rows than the one
/// before it. So it is mostly where events come in as they happen. Otherwise they stay in the order of their arrival.
pub(super) fn newest_first(parts: &[Arc<MemBatch>]) -> Vec<Arc<MemBatch>> {
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| Reverse(part.max_time));
    let follow = |pair: &[Arc<MemBatch>]| matches!(pair, [newer, older] if newer.min_time > older.max_time);
    if sorted.windows(2).all(follow) { sorted } else { parts.to_vec() }
}

/// The narrowest schema that holds the rows of them all, with the sparse paths of all.
pub(crate) fn joined_schema(parts: &[SchemaRef]) -> SchemaRef {
    // Each field, and how many parts have it.
    let mut schema: Vec<(Field, usize)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut known = SparsePaths::default();
    parts.iter().for_each(|part| known.extend(&SparsePaths::of_schema(part)));
    for field in parts.iter().flat_map(|part| part.fields()) {
        match places.get(field.name()).and_then(|place| schema.get_mut(*place)) {
            Some((known, parts)) => {
                *known = join_fields(known, field);
                *parts += 1;
            }
            None => {
                places.insert(field.name().clone(), schema.len());
                schema.push((field.as_ref().clone(), 1));
            }
        }
    }
    let in_all = |(field, count): (Field, usize)| if count == parts.len() { field } else { optional(&field) };
    let mut schema: Vec<Field> = schema.into_iter().map(in_all).collect();
    // The overflow stays last, as in the logical schema.
    schema.sort_by_key(|field| field.name() == OVERFLOW);
    Arc::new(Schema::new_with_metadata(schema, known.metadata()))
}

/// A column in the wanted type, or NULLs if the batch lacks it.
fn column_as(rows: &RecordBatch, name: &str, data_type: &DataType) -> Result<ArrayRef> {
    match rows.column_by_name(name) {
        Some(column) => adapt(column, data_type),
        None => Ok(new_null_array(data_type, rows.num_rows())),
    }
}

/// The rows in the columns of a schema that holds them.
pub(crate) fn conform(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema
        .fields()
        .iter()
        .map(|field| column_as(rows, field.name(), field.data_type()))
        .collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

pub(crate) fn times(rows: &RecordBatch) -> &[i64] {
    rows.column_by_name(TIMESTAMP)
        .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>())
        .map(|column| column.values().as_ref())
        .unwrap_or_default()
}

/// Sorts newest first. Rows with the same time stay in the order of their arrival.
fn sort(rows: RecordBatch) -> Result<RecordBatch> {
    let times = times(&rows);
    if times.is_sorted_by(|a, b| a >= b) {
        return Ok(rows);
    }
    let mut keyed: Vec<(i64, u32)> = times.iter().copied().zip(0..).collect();
    keyed.sort_unstable_by_key(|(time, row)| (Reverse(*time), *row));
    let order: UInt32Array = keyed.into_iter().map(|(_, row)| row).collect();
    Ok(take_record_batch(&rows, &order)?)
}
