//! The indexes of texts that a segment gets while it is written: of the messages, and of texts in records that saved
//! queries search.
//!
//! A text in a record is in its column, or in the overflow of its row (see [`crate::overflow`]). The index knows the texts of
//! the column only. So a row whose overflow has a value at the path of the text, above it or below it may have any text, and
//! no search leaves it out.

use std::io;

use datafusion::arrow::array::{Array, AsArray, RecordBatch, StringViewArray};
use memchr::memmem::Finder;
use parquet::schema::types::ColumnPath;
use serde_json::Value;
use tidegate_model::indexed_text;

use crate::{
    arrays::column_path::column_at,
    field_names::{MESSAGE, OVERFLOW},
    options::StoreOptions,
    schema::json_pointer::push_pointer,
    segment::trigram::builder::TrigramIndexBuilder,
};

/// The indexes of a segment that is being written.
#[derive(Default)]
pub(crate) struct TextIndexes(Vec<Builder>);

/// An index as it is written.
pub(crate) struct TextIndex {
    /// The name of the text, as [`indexed_text`] makes it.
    pub(crate) column: String,
    pub(crate) granules: usize,
    pub(crate) bytes: Vec<u8>,
}

struct Builder {
    column: String,
    path: Vec<String>,
    /// Finds what the overflow of a row has where the row's text may not be in the column; none for the messages, which
    /// always are.
    elsewhere: Vec<Finder<'static>>,
    trigrams: TrigramIndexBuilder,
}

impl TextIndexes {
    /// Indexes of a segment with so many rows, beside that of the messages of these texts in records. A segment of few rows
    /// has none.
    pub(crate) fn new(rows: usize, texts: &[Vec<String>], options: &StoreOptions) -> TextIndexes {
        if rows < options.trigram_rows {
            return TextIndexes::default();
        }
        let message = vec![MESSAGE.to_owned()];
        let paths = std::iter::once(&message).chain(texts);
        let builders = paths.filter_map(|path| {
            Some(Builder {
                column: indexed_text(path)?,
                path: path.clone(),
                elsewhere: if path.len() > 1 { keys_of_overflow(path) } else { Vec::new() },
                trigrams: TrigramIndexBuilder::new(options.row_group_rows),
            })
        });
        TextIndexes(builders.collect())
    }

    /// The columns that get an index.
    pub(crate) fn columns(&self) -> impl Iterator<Item = ColumnPath> {
        self.0.iter().map(|builder| ColumnPath::new(builder.path.clone()))
    }

    /// Adds the next rows of the current run.
    pub(crate) fn add(&mut self, rows: &RecordBatch) {
        let overflow = rows.column_by_name(OVERFLOW).and_then(|column| column.as_string_view_opt());
        let overflow = overflow.filter(|overflow| overflow.null_count() < overflow.len());
        for Builder { path, elsewhere, trigrams, .. } in &mut self.0 {
            let texts = column_at(rows, path).and_then(|column| column.as_string_view_opt());
            match overflow.filter(|_| !elsewhere.is_empty()) {
                Some(overflow) => trigrams.add(texts, |row| is_elsewhere(overflow, row, elsewhere)),
                None => trigrams.add(texts, |_| false),
            }
        }
    }

    /// Ends the current row group.
    pub(crate) fn end_group(&mut self) {
        self.0.iter_mut().for_each(|builder| builder.trigrams.end_group());
    }

    /// The indexes, which are gone then. A text that has no column in this segment has none.
    ///
    /// # Errors
    /// If zstd fails, which is not known to happen.
    pub(crate) fn finish(&mut self) -> io::Result<Vec<TextIndex>> {
        let mut indexes = Vec::new();
        for Builder { column, trigrams, .. } in self.0.drain(..) {
            if let Some((granules, bytes)) = trigrams.finish()? {
                indexes.push(TextIndex { column, granules, bytes });
            }
        }
        Ok(indexes)
    }
}

/// How the keys of the overflow begin, as JSON, that are at a path, above it or below it.
fn keys_of_overflow(path: &[String]) -> Vec<Finder<'static>> {
    let mut pointer = String::new();
    let mut finders = Vec::new();
    for key in path {
        push_pointer(&mut pointer, key);
        finders.push(Finder::new(&Value::from(pointer.as_str()).to_string()).into_owned());
    }
    pointer.push('/');
    let below = Value::from(pointer).to_string();
    finders.push(Finder::new(below.strip_suffix('"').unwrap_or(&below)).into_owned());
    finders
}

fn is_elsewhere(overflow: &StringViewArray, row: usize, keys: &[Finder<'_>]) -> bool {
    overflow.is_valid(row) && keys.iter().any(|key| key.find(overflow.value(row).as_bytes()).is_some())
}
