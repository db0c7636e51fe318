//! Reading rows, one after the other.

use crate::batch::Batch;
use crate::contract::{self, Kind};
use crate::{Cell, Column, Problem, Row};

/// Rows of the first batch, before it is known how large rows are.
const FIRST_ROWS: u32 = 256;
/// Rows of a batch at most.
const MOST_ROWS: u32 = 8192;
/// Rows of a batch at least.
const LEAST_ROWS: u32 = 16;
/// Bytes that a batch should have, about.
const BATCH_BYTES: usize = 256 << 10;

/// The rows of a statement as they enter the endpoint's memory.
///
/// Ask for the columns first, by name and type, then for one row after the other:
///
/// ```no_run
/// use tidegate_sdk::{Problem, statement};
///
/// # fn slowest() -> Result<(), Problem> {
/// let mut rows = statement("default").run()?.rows();
/// let (path, milliseconds) = (rows.column::<str>("path")?, rows.column::<f64>("milliseconds")?);
/// let mut slowest = (String::new(), 0.0);
/// while let Some(row) = rows.next()? {
///     let (Some(path), Some(milliseconds)) = (row.get(path), row.get(milliseconds)) else { continue };
///     if milliseconds > slowest.1 {
///         slowest = (path.to_owned(), milliseconds);
///     }
/// }
/// # Ok(()) }
/// ```
///
/// Rows come in batches of columns, and reading a cell copies nothing. A batch holds about 256 KiB, and 16 to 8192
/// rows; [`batch_rows`](Self::batch_rows) sets another number.
///
/// # Limits
/// All rows that a request reads count against `component_rows` (1,000,000 unless the server, the endpoint or the token
/// says less), their size against `component_bytes` (32 MiB), and each batch against `component_calls`. Let the
/// statement select, filter and aggregate what it can: rows that stay in the host are free.
#[derive(Debug)]
pub struct Rows {
    set: contract::ResultSet,
    columns: Vec<contract::Column>,
    batch: Batch,
    /// The next row of the batch.
    at: usize,
    size: Size,
    ended: bool,
    /// Columns that are read as another type than they have, which is right as long as they are null.
    untyped: Vec<usize>,
}

impl Rows {
    pub(crate) fn new(set: contract::ResultSet) -> Self {
        let columns = set.columns();
        Self {
            set,
            columns,
            batch: Batch::default(),
            at: 0,
            size: Size::Fitting(FIRST_ROWS),
            ended: false,
            untyped: Vec::new(),
        }
    }

    /// The same rows, `rows` in each batch (the host takes 65,536 for more, and 1 for 0).
    #[must_use]
    pub fn batch_rows(mut self, rows: u32) -> Self {
        self.size = Size::Fixed(rows.max(1));
        self
    }

    /// The column `name`, to be read as `T`: see [`Cell`] for the types.
    ///
    /// A field that no log has yet comes as texts, all null, and can be read as any type.
    ///
    /// # Errors
    /// A failure of the endpoint (500) that names the columns that there are, if `name` is none of them, or the kind of
    /// the column, if it is no `T`. A field of a log has the type that the logs gave it, so write
    /// `SAFE_CAST(.. AS INT64)` in the statement where the type matters.
    pub fn column<T: Cell + ?Sized>(&mut self, name: &str) -> Result<Column<T>, Problem> {
        let (column, typed) = column(&self.columns, name)?;
        if !typed {
            self.untyped.push(column.index());
        }
        Ok(column)
    }

    /// The next row, or `None` after the last.
    ///
    /// # Errors
    /// The statement failed on the way, or a limit is reached: the caller then reads the host's own error. A failure of
    /// the endpoint (500), if a column of texts was to be read as another type. There are no rows after a failure.
    #[expect(clippy::should_implement_trait, reason = "a row borrows from the rows, which no Iterator can say")]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, Problem> {
        if self.at >= self.batch.rows() && !self.advance()? {
            return Ok(None);
        }
        let row = self.batch.row(self.at);
        self.at += 1;
        Ok(Some(row))
    }

    /// Brings the next batch; whether there was one.
    fn advance(&mut self) -> Result<bool, Problem> {
        self.at = 0;
        let before = std::mem::take(&mut self.batch);
        if self.ended {
            return Ok(false);
        }
        self.ended = true;
        let most = self.size.after(before.rows(), before.bytes());
        // There is never memory for two.
        drop(before);
        if let Some(batch) = self.set.next(most)? {
            let batch = Batch::new(batch)?;
            if let Some(index) = self.untyped.iter().find(|index| batch.has_value(**index)) {
                return Err(self.columns.get(*index).map_or_else(|| Problem::mistake(&[]), misread));
            }
            self.batch = batch;
            self.ended = false;
        }
        Ok(!self.ended)
    }
}

/// How many rows a batch has at most.
#[derive(Debug, Clone, Copy)]
enum Size {
    Fixed(u32),
    /// As many as are about [`BATCH_BYTES`]; so many before the first batch.
    Fitting(u32),
}

impl Size {
    /// After a batch of `rows` rows and `bytes` bytes, or none.
    fn after(self, rows: usize, bytes: usize) -> u32 {
        match self {
            Self::Fixed(rows) => rows,
            Self::Fitting(first) if rows == 0 => first,
            Self::Fitting(_) => {
                let fitting = BATCH_BYTES.saturating_mul(rows) / bytes.max(1);
                u32::try_from(fitting).unwrap_or(MOST_ROWS).clamp(LEAST_ROWS, MOST_ROWS)
            }
        }
    }
}

/// The column, and whether it is of a kind that can be read as `T`: if not, it must be null.
fn column<T: Cell + ?Sized>(columns: &[contract::Column], name: &str) -> Result<(Column<T>, bool), Problem> {
    let found = columns.iter().enumerate().find(|(_, column)| column.name == name);
    match found {
        Some((index, found)) if T::fits(found.kind) => Ok((Column::at(index), true)),
        Some((index, contract::Column { kind: Kind::Text, .. })) => Ok((Column::at(index), false)),
        Some((_, found)) => Err(misread(found)),
        None => {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            Err(Problem::mistake(&["the statement has no column '", name, "'; there are ", &names.join(", ")]))
        }
    }
}

fn misread(column: &contract::Column) -> Problem {
    let kind = kind_name(column.kind);
    Problem::mistake(&["the column '", &column.name, "' is of kind ", kind, " and is read as another; cast it"])
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::Int64 => "int64",
        Kind::Float64 => "float64",
        Kind::Text => "text",
        Kind::Bytes => "bytes",
        Kind::Timestamp => "timestamp",
        Kind::Json => "json",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn batches_are_as_large_as_they_should_be() {
        let size = Size::Fitting(FIRST_ROWS);
        assert_eq!(size.after(0, 0), FIRST_ROWS);
        assert_eq!(size.after(256, 256 * 16), MOST_ROWS, "small rows");
        assert_eq!(size.after(256, 256 * 1024), 256, "of 1 KiB");
        assert_eq!(size.after(256, 256 * 100_000), LEAST_ROWS, "huge");
        assert_eq!(size.after(usize::MAX, 0), MOST_ROWS);
        assert_eq!(Size::Fixed(7).after(256, 1), 7);
    }

    #[test]
    fn columns_are_found_by_name_and_kind() {
        let column_of = |name: &str, kind| contract::Column { name: name.to_owned(), kind, nullable: true };
        let columns = [column_of("method", Kind::Text), column_of("status", Kind::Int64)];
        assert!(column::<str>(&columns, "method").unwrap().1);
        assert!(column::<i64>(&columns, "status").unwrap().1);
        assert!(column::<f64>(&columns, "status").unwrap().1);
        assert!(!column::<i64>(&columns, "method").unwrap().1, "right as long as it is null");
        let missing = column::<i64>(&columns, "stauts").unwrap_err();
        assert!(missing.detail.contains("'stauts'; there are method, status"), "{}", missing.detail);
        let wrong = column::<str>(&columns, "status").unwrap_err();
        assert!(wrong.detail.contains("'status' is of kind int64"), "{}", wrong.detail);
        assert_eq!(wrong.code, "endpoint-mistake");
    }
}
