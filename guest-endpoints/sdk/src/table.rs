//! Making rows: one after the other, handed to the host as columns.

use crate::{Batch, Column, Failure, Kind, Packed, Problem, ResultSet, Series, SeriesData, Value};

/// Rows in the making.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    series: Vec<Builder>,
    rows: u32,
}

#[derive(Debug)]
struct Builder {
    validity: Vec<u8>,
    data: SeriesData,
}

impl Table {
    /// A table without rows, with columns of these names and kinds. Every column takes nulls.
    pub fn new(columns: &[(&str, Kind)]) -> Self {
        let series = columns.iter().map(|(_, kind)| Builder { validity: Vec::new(), data: empty(*kind) });
        let series = series.collect();
        let column = |(name, kind): &(&str, Kind)| Column { name: (*name).to_owned(), kind: *kind, nullable: true };
        Self { columns: columns.iter().map(column).collect(), series, rows: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The row does not fit the columns, which is a mistake in the endpoint.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) -> Result<(), Problem> {
        let misfit = || Problem::new("endpoint-mistake", "a row does not fit the columns of its table");
        let mut values = row.into_iter();
        for builder in &mut self.series {
            let value = values.next().ok_or_else(misfit)?;
            builder.validity.push(u8::from(!matches!(value, Value::Null)));
            match (&mut builder.data, value) {
                (SeriesData::Booleans(values), Value::Boolean(value)) => values.push(u8::from(value)),
                (SeriesData::Booleans(values), Value::Null) => values.push(0),
                (SeriesData::Int64s(values), Value::Int64(value)) => values.push(value),
                (SeriesData::Int64s(values), Value::Null) => values.push(0),
                (SeriesData::Float64s(values), Value::Float64(value)) => values.push(value),
                (SeriesData::Float64s(values), Value::Null) => values.push(0.0),
                (SeriesData::Timestamps(values), Value::Timestamp(value)) => values.push(value),
                (SeriesData::Timestamps(values), Value::Null) => values.push(0),
                (SeriesData::Texts(packed), Value::Text(value)) => packed.push(value.as_bytes()).ok_or_else(misfit)?,
                (SeriesData::Bytes(packed), Value::Bytes(value)) => packed.push(&value).ok_or_else(misfit)?,
                (SeriesData::Texts(packed) | SeriesData::Bytes(packed), Value::Null) => {
                    packed.push(&[]).ok_or_else(misfit)?;
                }
                _ => return Err(misfit()),
            }
        }
        self.rows += 1;
        if values.next().is_none() { Ok(()) } else { Err(misfit()) }
    }

    /// Hands the rows to the host.
    ///
    /// # Errors
    /// The host does not take them.
    pub fn finish(self) -> Result<ResultSet, Failure> {
        let series = self.series.into_iter().map(|Builder { validity, data }| {
            let validity = validity.contains(&0).then_some(validity);
            Series { validity, data }
        });
        ResultSet::make(&self.columns, &[Batch { rows: self.rows, columns: series.collect() }])
    }
}

fn empty(kind: Kind) -> SeriesData {
    let packed = || Packed { offsets: vec![0], buffer: Vec::new() };
    match kind {
        Kind::Boolean => SeriesData::Booleans(Vec::new()),
        Kind::Int64 => SeriesData::Int64s(Vec::new()),
        Kind::Float64 => SeriesData::Float64s(Vec::new()),
        Kind::Timestamp => SeriesData::Timestamps(Vec::new()),
        Kind::Text | Kind::Json => SeriesData::Texts(packed()),
        Kind::Bytes => SeriesData::Bytes(packed()),
    }
}

impl Packed {
    fn push(&mut self, value: &[u8]) -> Option<()> {
        self.buffer.extend_from_slice(value);
        self.offsets.push(u32::try_from(self.buffer.len()).ok()?);
        Some(())
    }
}
