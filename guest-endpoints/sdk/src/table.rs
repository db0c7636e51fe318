//! Making rows: one after the other, handed to the host as columns.

use std::marker::PhantomData;

use crate::contract::{self, Failure, Kind, Packed, SeriesData};
use crate::{Json, ResultSet, Timestamp};

/// Rows in the making. The compiler holds each row to the same types, and to as many as there are names.
///
/// ```no_run
/// use tidegate_sdk::{Problem, Response, Table};
///
/// # fn answer() -> Result<Response, Problem> {
/// let mut table = Table::new(["method", "requests", "error_share"]);
/// table.push(("GET", 120_i64, Some(0.025)));
/// table.push(("DELETE", 0, None));
/// Response::table(table)
/// # }
/// ```
///
/// A row with another number of cells than there are names does not compile:
///
/// ```compile_fail
/// let mut table = tidegate_sdk::Table::new(["method", "requests"]);
/// table.push(("GET", 120_i64, 0.5));
/// ```
///
/// # Limits
/// Made rows cross to the host in one call, so `component_call_bytes` (1 MiB unless set) is the most that a table can
/// hold, names included; it is gathered in the endpoint's own memory.
#[derive(Debug)]
pub struct Table<R: Record> {
    columns: Vec<contract::Column>,
    builders: Vec<Builder>,
    rows: u32,
    of: PhantomData<fn(R)>,
}

impl<R: Record> Table<R> {
    /// A table without rows, with columns of these names. The types of the columns come from the rows that are pushed.
    pub fn new(names: R::Names) -> Self {
        let kinds = R::kinds();
        let columns = names.as_ref().iter().zip(&kinds);
        let column = |(name, (kind, nullable)): (&&str, &(Kind, bool))| contract::Column {
            name: (*name).to_owned(),
            kind: *kind,
            nullable: *nullable,
        };
        let columns = columns.map(column).collect();
        let builders = kinds.iter().map(|(kind, _)| Builder::new(*kind)).collect();
        Self { columns, builders, rows: 0, of: PhantomData }
    }

    /// Adds a row.
    pub fn push(&mut self, row: R) {
        row.put(&mut self.builders);
        self.rows += 1;
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Hands the rows to the host, as those of a statement.
    ///
    /// # Errors
    /// The host does not take them: two columns have one name, a name is empty or over 1024 bytes, or [`Json`] is none.
    pub fn finish(self) -> Result<ResultSet, Failure> {
        let (columns, batch) = self.batch();
        contract::ResultSet::make(&columns, &[batch]).map(ResultSet::from)
    }

    fn batch(self) -> (Vec<contract::Column>, contract::Batch) {
        let series = self.builders.into_iter().map(|Builder { validity, data }| {
            let validity = validity.contains(&0).then_some(validity);
            contract::Series { validity, data }
        });
        (self.columns, contract::Batch { rows: self.rows, columns: series.collect() })
    }
}

impl<R: Record> Extend<R> for Table<R> {
    fn extend<I: IntoIterator<Item = R>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

/// A row of a [`Table`]: a tuple of one to sixteen cells, each of which is [`IntoCell`].
pub trait Record: sealed::Sealed {
    /// An array with a name for each cell.
    type Names: AsRef<[&'static str]>;

    /// The kind of each cell, and whether it may be null.
    #[doc(hidden)]
    fn kinds() -> Vec<(Kind, bool)>;

    #[doc(hidden)]
    fn put(self, builders: &mut [Builder]);
}

/// A Rust type that can be a cell of a [`Table`].
///
/// | type | column |
/// |---|---|
/// | `i64`, `i32`, `u32`; `u64` and `usize` (the greatest integer if larger) | integers |
/// | `f64` (in JSON, a caller sees `"NaN"` and `"Infinity"` as texts) | floats |
/// | `bool` | booleans |
/// | `&str`, `String` | texts |
/// | [`Timestamp`] | timestamps |
/// | [`Json`] | nested values |
/// | `&[u8]`, `Vec<u8>` | bytes |
/// | `Option` of these | the same, where `None` is null |
pub trait IntoCell: sealed::Sealed {
    #[doc(hidden)]
    const KIND: Kind;

    #[doc(hidden)]
    const NULLABLE: bool = false;

    #[doc(hidden)]
    fn put(self, builder: &mut Builder);
}

mod sealed {
    pub trait Sealed {}
}

/// A column in the making.
#[doc(hidden)]
#[derive(Debug)]
pub struct Builder {
    validity: Vec<u8>,
    data: SeriesData,
}

impl Builder {
    fn new(kind: Kind) -> Self {
        let packed = || Packed { offsets: vec![0], buffer: Vec::new() };
        let data = match kind {
            Kind::Boolean => SeriesData::Booleans(Vec::new()),
            Kind::Int64 => SeriesData::Int64s(Vec::new()),
            Kind::Float64 => SeriesData::Float64s(Vec::new()),
            Kind::Timestamp => SeriesData::Timestamps(Vec::new()),
            Kind::Text | Kind::Json => SeriesData::Texts(packed()),
            Kind::Bytes => SeriesData::Bytes(packed()),
        };
        Self { validity: Vec::new(), data }
    }

    fn null(&mut self) {
        self.validity.push(0);
        match &mut self.data {
            SeriesData::Booleans(values) => values.push(0),
            SeriesData::Int64s(values) | SeriesData::Timestamps(values) => values.push(0),
            SeriesData::Float64s(values) => values.push(0.0),
            SeriesData::Texts(packed) | SeriesData::Bytes(packed) => packed.push(&[]),
        }
    }

    /// A builder was made for the kind of the cells that it is given, so none is ever left out.
    fn integer(&mut self, value: i64) {
        self.validity.push(1);
        if let SeriesData::Int64s(values) | SeriesData::Timestamps(values) = &mut self.data {
            values.push(value);
        }
    }

    fn float(&mut self, value: f64) {
        self.validity.push(1);
        if let SeriesData::Float64s(values) = &mut self.data {
            values.push(value);
        }
    }

    fn boolean(&mut self, value: bool) {
        self.validity.push(1);
        if let SeriesData::Booleans(values) = &mut self.data {
            values.push(value.into());
        }
    }

    fn bytes(&mut self, value: &[u8]) {
        self.validity.push(1);
        if let SeriesData::Texts(packed) | SeriesData::Bytes(packed) = &mut self.data {
            packed.push(value);
        }
    }
}

impl Packed {
    fn push(&mut self, value: &[u8]) {
        self.buffer.extend_from_slice(value);
        // A component has no memory for 4 GiB; the host refuses offsets that do not fit.
        self.offsets.push(u32::try_from(self.buffer.len()).unwrap_or(u32::MAX));
    }
}

macro_rules! into_cell {
    ($($type:ty, $kind:ident, $method:ident, |$value:ident| $cell:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}

            impl IntoCell for $type {
                const KIND: Kind = Kind::$kind;

                fn put(self, builder: &mut Builder) {
                    let $value = self;
                    builder.$method($cell);
                }
            }
        )*
    };
}

into_cell! {
    i64, Int64, integer, |value| value;
    i32, Int64, integer, |value| value.into();
    u32, Int64, integer, |value| value.into();
    u64, Int64, integer, |value| i64::try_from(value).unwrap_or(i64::MAX);
    usize, Int64, integer, |value| i64::try_from(value).unwrap_or(i64::MAX);
    f64, Float64, float, |value| value;
    bool, Boolean, boolean, |value| value;
    &str, Text, bytes, |value| value.as_bytes();
    String, Text, bytes, |value| value.as_bytes();
    Json, Json, bytes, |value| value.0.as_bytes();
    &[u8], Bytes, bytes, |value| value;
    Vec<u8>, Bytes, bytes, |value| &value;
    Timestamp, Timestamp, integer, |value| value.micros();
}

impl<T: IntoCell> sealed::Sealed for Option<T> {}

impl<T: IntoCell> IntoCell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn put(self, builder: &mut Builder) {
        match self {
            Some(value) => value.put(builder),
            None => builder.null(),
        }
    }
}

macro_rules! record {
    ($count:literal: $($cell:ident)*) => {
        impl<$($cell: IntoCell),*> sealed::Sealed for ($($cell,)*) {}

        impl<$($cell: IntoCell),*> Record for ($($cell,)*) {
            type Names = [&'static str; $count];

            fn kinds() -> Vec<(Kind, bool)> {
                vec![$(($cell::KIND, $cell::NULLABLE)),*]
            }

            #[expect(non_snake_case, reason = "the cells are called like their types")]
            fn put(self, builders: &mut [Builder]) {
                let ($($cell,)*) = self;
                let mut builders = builders.iter_mut();
                $(if let Some(builder) = builders.next() {
                    $cell.put(builder);
                })*
            }
        }
    };
}

record!(1: A);
record!(2: A B);
record!(3: A B C);
record!(4: A B C D);
record!(5: A B C D E);
record!(6: A B C D E F);
record!(7: A B C D E F G);
record!(8: A B C D E F G H);
record!(9: A B C D E F G H I);
record!(10: A B C D E F G H I J);
record!(11: A B C D E F G H I J K);
record!(12: A B C D E F G H I J K L);
record!(13: A B C D E F G H I J K L M);
record!(14: A B C D E F G H I J K L M N);
record!(15: A B C D E F G H I J K L M N O);
record!(16: A B C D E F G H I J K L M N O P);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let mut table = Table::new(["text", "n", "share", "yes", "at", "json", "bytes"]);
        let json = || Json("[1]".to_owned());
        table.push(("ä", 1_i64, Some(0.5), true, Timestamp::from_micros(7), json(), vec![0xff]));
        table.push(("", -2, None, false, Timestamp::from_micros(-7), json(), vec![]));
        assert_eq!((table.len(), table.is_empty()), (2, false));
        let (columns, batch) = table.batch();
        let described: Vec<_> =
            columns.iter().map(|column| (column.name.as_str(), column.kind, column.nullable)).collect();
        assert_eq!(
            described,
            [
                ("text", Kind::Text, false),
                ("n", Kind::Int64, false),
                ("share", Kind::Float64, true),
                ("yes", Kind::Boolean, false),
                ("at", Kind::Timestamp, false),
                ("json", Kind::Json, false),
                ("bytes", Kind::Bytes, false),
            ]
        );
        assert_eq!(batch.rows, 2);
        let validity: Vec<_> = batch.columns.iter().map(|series| series.validity.as_deref()).collect();
        assert_eq!(validity, [None, None, Some(&[1, 0][..]), None, None, None, None]);
        let [text, n, share, yes, at, json, bytes] = batch.columns.as_slice() else { unreachable!("seven columns") };
        assert!(matches!(&text.data, SeriesData::Texts(Packed { offsets, buffer })
            if *offsets == [0, 2, 2] && buffer == "ä".as_bytes()));
        assert!(matches!(&n.data, SeriesData::Int64s(values) if *values == [1, -2]));
        assert!(matches!(&share.data, SeriesData::Float64s(values) if *values == [0.5, 0.0]));
        assert!(matches!(&yes.data, SeriesData::Booleans(values) if *values == [1, 0]));
        assert!(matches!(&at.data, SeriesData::Timestamps(values) if *values == [7, -7]));
        assert!(matches!(&json.data, SeriesData::Texts(packed) if packed.buffer == b"[1][1]"));
        assert!(matches!(&bytes.data, SeriesData::Bytes(packed) if packed.offsets == [0, 1, 1]));
    }

    #[test]
    fn what_is_no_integer_is_the_greatest() {
        let mut table = Table::new(["n", "none"]);
        table.extend([(u64::MAX, Some("x")), (3, None)]);
        let (_, batch) = table.batch();
        let [n, none] = batch.columns.as_slice() else { unreachable!("two columns") };
        assert!(matches!(&n.data, SeriesData::Int64s(values) if *values == [i64::MAX, 3]));
        assert!(matches!(&none.data, SeriesData::Texts(packed) if packed.offsets == [0, 1, 1]));
        assert_eq!(none.validity.as_deref(), Some(&[1, 0][..]));
    }

    #[test]
    fn a_table_without_rows_has_its_columns() {
        let table: Table<(i64,)> = Table::new(["n"]);
        let (columns, batch) = table.batch();
        assert_eq!((columns.len(), batch.rows, batch.columns.len()), (1, 0, 1));
    }
}
