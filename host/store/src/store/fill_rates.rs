//! How often the fields of a source have a value: for those who look at a source before they write a query.
//!
//! The footers of segments have the number of NULLs of each column, so that no row is read. Rows in memory are counted.

use std::collections::HashMap;

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::NullBuffer,
    datatypes::DataType,
};
use uuid::Uuid;

use crate::{
    error::Result,
    schema::kind::{Fields, Kind},
    segment::footer,
    store::Store,
};

/// The most segments whose footers are read: those with the most rows.
const MOST_FOOTERS: usize = 100;

/// How often the fields of a source have a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FillRates {
    /// The rows of the source.
    pub rows: u64,
    /// The rows that were looked at: those in memory, and those of the segments with the most rows. Segments that are
    /// damaged, or were written without these numbers, are left out.
    pub counted: u64,
    /// How many of the counted rows have a value, by path as in [`Store::schema`]. Only paths of single values are here:
    /// no records, arrays, or fields of arrays of records. Values that have no column of their own where they lie are not counted:
    /// those of a field that is rare among the rows written with it, and those of another type than its column's.
    pub fields: Vec<(String, u64)>,
}

/// Values by the names that lead to them.
type Counts = HashMap<Vec<String>, u64>;

impl Store {
    /// How often the fields of a source have a value. Reads the footers of up to 100 segments, which takes some
    /// milliseconds each.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`](crate::StoreError::UnknownSource).
    pub fn fill_rates(&self, id: Uuid) -> Result<FillRates> {
        let snapshot = self.get(id)?.snapshot()?;
        let (mut counts, mut counted) = (Counts::new(), 0);
        for batch in &snapshot.memory {
            counted += batch.rows.num_rows() as u64;
            for (field, column) in batch.rows.schema_ref().fields().iter().zip(batch.rows.columns()) {
                add_column(&mut counts, &mut vec![field.name().clone()], column, None);
            }
        }
        let in_memory = counted;
        let mut segments: Vec<_> = snapshot.segments.iter().collect();
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.rows));
        for segment in segments.into_iter().take(MOST_FOOTERS).filter(|segment| segment.damage().is_none()) {
            let Some(path) = segment.path() else { continue };
            let read = footer::read(path, segment.id, segment.checksum);
            let values = read.map(|footer| footer.value_counts().map(|values| (values, footer.rows)));
            match values {
                Ok(Some((values, rows))) => {
                    counted += rows;
                    for (path, values) in values {
                        *counts.entry(path).or_default() += values;
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(segment = %segment.id, %error, "the footer of a segment cannot be read"),
            }
        }
        let rows = in_memory + snapshot.segments.iter().map(|segment| segment.rows as u64).sum::<u64>();
        let mut fields = Vec::new();
        list(&snapshot.shape.fields, &mut Vec::new(), &counts, &mut fields);
        Ok(FillRates { rows, counted, fields })
    }
}

/// Counts the values of a column and of the columns below it. `above` has the rows without the records around it.
fn add_column(counts: &mut Counts, path: &mut Vec<String>, column: &ArrayRef, above: Option<&NullBuffer>) {
    let nulls = NullBuffer::union(above, column.logical_nulls().as_ref());
    if let DataType::Struct(fields) = column.data_type() {
        for (field, column) in fields.iter().zip(column.as_struct().columns()) {
            path.push(field.name().clone());
            add_column(counts, path, column, nulls.as_ref());
            path.pop();
        }
    } else {
        let values = column.len() - nulls.map_or(0, |nulls| nulls.null_count());
        *counts.entry(path.clone()).or_default() += values as u64;
    }
}

/// The counts of the single values below a record.
fn list(fields: &Fields, path: &mut Vec<String>, counts: &Counts, to: &mut Vec<(String, u64)>) {
    for (name, kind) in fields.iter() {
        path.push(name.to_owned());
        match kind {
            Kind::Scalar { .. } => {
                to.push((path.join("."), counts.get(path.as_slice()).copied().unwrap_or_default()));
            }
            Kind::Record { many: false, fields, .. } => list(fields, path, counts, to),
            Kind::Record { .. } | Kind::List { .. } => {}
        }
        path.pop();
    }
}
