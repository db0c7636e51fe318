//! How the columns of a segment are compressed, and which have a dictionary, in the file itself.

use std::{fs::File, path::Path};

use parquet::{
    basic::{Compression, Encoding},
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData},
        reader::{FileReader, SerializedFileReader},
    },
};
use serde_json::{Value, json};

use super::{all, damage::files, manual, with_source};
use crate::Store;

const ROWS: i64 = 10_000;

pub(super) fn footer(file: &Path) -> ParquetMetaData {
    SerializedFileReader::new(File::open(file).unwrap()).unwrap().metadata().clone()
}

/// The first chunk of a column.
pub(super) fn chunk<'f>(footer: &'f ParquetMetaData, column: &str) -> &'f ColumnChunkMetaData {
    let columns = footer.row_group(0).columns();
    columns.iter().find(|chunk| chunk.column_path().string() == column).unwrap()
}

async fn flushed(store: &Store, event: impl Fn(i64) -> Value) {
    for part in 0..2 {
        store.flushed("s", (part * ROWS..(part + 1) * ROWS).map(&event).collect()).await;
    }
}

/// Texts that are searched and numbers of dictionaries are compressed with LZ4, times not at all, other texts with zstd and
/// their lengths apart, also after a merge.
#[tokio::test]
async fn columns_are_compressed_by_what_they_are() {
    let (dir, store) = with_source(manual());
    let source = store.source("s").unwrap().id;
    store.index_texts(source, [["metadata", "url"].map(str::to_owned).to_vec()]).unwrap();
    let mixed = |i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
    flushed(&store, |i| {
        let text = format!("GET {:016x} /rest/v1/items", mixed(i));
        let path = format!("/rest/v1/items/of/some/length/{}", i * 7 % 2_500);
        let metadata = json!({"url": text, "other": text, "path": path, "number": mixed(i)});
        json!({"id": i.to_string(), "event_message": text, "metadata": metadata})
    })
    .await;
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
        }
        let footer = footer(&files(dir.path()).remove(0));
        let of = |column: &str| chunk(&footer, column).compression();
        for column in ["event_message", "metadata.url", "metadata.path"] {
            assert_eq!(of(column), Compression::LZ4_RAW, "{column}, merged: {merged}");
        }
        assert!(chunk(&footer, "metadata.path").dictionary_page_offset().is_some());
        assert_eq!(of("timestamp"), Compression::UNCOMPRESSED);
        for column in ["id", "metadata.other", "metadata.number"] {
            assert!(matches!(of(column), Compression::ZSTD(_)), "{column}, merged: {merged}");
            assert!(chunk(&footer, column).dictionary_page_offset().is_none());
        }
        for (column, encoding) in [
            ("id", Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ("metadata.other", Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ("metadata.number", Encoding::PLAIN),
            ("timestamp", Encoding::DELTA_BINARY_PACKED),
        ] {
            assert!(chunk(&footer, column).encodings().any(|found| found == encoding), "{column}, merged: {merged}");
        }
    }
    assert_eq!(all(&store, "s").await.len(), 2 * ROWS as usize);
}

/// The messages and times of a source whose events are alike take next to nothing.
#[tokio::test]
async fn messages_that_repeat_have_a_dictionary() {
    let (dir, store) = with_source(manual());
    let texts =
        ["started", "stopped", "failed"].map(|word| format!("the job has {word}: {}", "no further detail ".repeat(20)));
    flushed(&store, |i| {
        let text = &texts[i as usize * 7 % 3];
        json!({"id": i.to_string(), "timestamp": 1_700_000_000_000_000_i64, "event_message": text})
    })
    .await;
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
        }
        let footer = footer(&files(dir.path()).remove(0));
        let message = chunk(&footer, "event_message");
        assert!(message.dictionary_page_offset().is_some(), "merged: {merged}");
        assert!(message.compressed_size() < 12_000, "{} bytes, merged: {merged}", message.compressed_size());
        let time = chunk(&footer, "timestamp");
        assert!(time.compressed_size() < 4_000, "{} bytes, merged: {merged}", time.compressed_size());
    }
    let found = all(&store, "s").await;
    assert_eq!(found.iter().filter(|row| row["event_message"] == texts[0].as_str()).count(), ROWS as usize * 2 / 3 + 1);
}
