//! UUIDs are stored as 16 bytes, and nobody who reads them sees that.

use std::path::Path;

use datafusion::prelude::{col, lit};
use parquet::basic::{LogicalType, Type};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    all,
    damage::files,
    encodings::{chunk, footer},
    frame, opened, path, rows, with_source,
};
use crate::{Store, StoreOptions, verify};

const ROWS: u64 = 400;

/// Several row groups in a run, several runs in a segment, and an index of the texts of each segment.
fn options() -> StoreOptions {
    StoreOptions { manual_flush: true, run_rows: 150, row_group_rows: 64, trigram_rows: 1, ..StoreOptions::default() }
}

fn uuid(of: &str, number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Uuid::from_u64_pair(mixed ^ of.len() as u64, mixed.rotate_left(31)).to_string()
}

fn event(number: u64) -> Value {
    let mut metadata = json!({
        "request": uuid("request", number), "few": uuid("few", number % 5), "searched": uuid("searched", number),
        "upper": uuid("upper", number).to_uppercase(), "bare": uuid("bare", number).replace('-', ""),
        "list": [uuid("list", number)],
    });
    if !number.is_multiple_of(3) {
        metadata["user"] = json!({"id": uuid("user", number), "name": format!("n{}", number % 7)});
    }
    let project = format!("p{}", number % 4);
    json!({"id": uuid("id", number), "timestamp": 1_700_000_000_000_000_u64 + number, "project": project, "n": number, "metadata": metadata})
}

/// So many segments; `change` changes events before they are sent.
async fn filled(store: &Store, segments: u64, change: impl Fn(u64, &mut Value)) {
    let source = store.create_source("s").unwrap().id;
    store.index_texts(source, [["metadata", "searched"].map(str::to_owned).to_vec()]).unwrap();
    for segment in 0..segments {
        let events = (segment * ROWS..(segment + 1) * ROWS).map(|number| {
            let mut event = event(number);
            change(number, &mut event);
            event
        });
        store.ingest("s", events.collect()).await.unwrap();
        if segment == 0 {
            // The next ones are sent to a source whose first rows have been flushed.
            store.flush().await.unwrap();
        }
        store.flush().await.unwrap();
    }
}

/// Whether a column is packed in a file, and told to be UUIDs.
fn is_packed(file: &Path, column: &str) -> bool {
    let footer = footer(file);
    let column = chunk(&footer, column).column_descr();
    let packed = column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY;
    assert_eq!(packed, column.logical_type_ref() == Some(&LogicalType::Uuid));
    packed
}

async fn numbers_of(store: &Store, condition: datafusion::prelude::Expr) -> Vec<u64> {
    let found = rows(frame(store, "s").filter(condition).unwrap()).await;
    found.iter().map(|row| row["n"].as_u64().unwrap()).collect()
}

/// What does not depend on how rows are stored.
async fn asked(store: &Store) -> (Vec<Value>, Vec<Vec<u64>>) {
    let mut found = Vec::new();
    for number in [0, 1, 63, 399, 500, 799] {
        found.push(numbers_of(store, col("id").eq(lit(uuid("id", number)))).await);
        found.push(numbers_of(store, path("metadata", &["request"]).eq(lit(uuid("request", number)))).await);
        found.push(numbers_of(store, path("metadata", &["user", "id"]).eq(lit(uuid("user", number)))).await);
        found.push(numbers_of(store, path("metadata", &["searched"]).eq(lit(uuid("searched", number)))).await);
    }
    // No text that is stored, in forms that are not stored either.
    for other in [uuid("id", 1).to_uppercase(), uuid("id", 1).replace('-', ""), "soon".to_owned(), String::new()] {
        found.push(numbers_of(store, col("id").eq(lit(other))).await);
    }
    let request = || path("metadata", &["request"]);
    let user = || path("metadata", &["user", "id"]);
    let some = || vec![lit(uuid("request", 5)), lit("soon"), lit(uuid("request", 601)), lit(uuid("user", 1))];
    let users = || vec![lit(uuid("user", 1)), lit(uuid("user", 4))];
    for condition in [
        request().in_list(some(), false),
        request().in_list(some(), true),
        request().in_list(vec![lit("soon")], true),
        request().not_eq(lit(uuid("request", 5))),
        user().in_list(users(), false),
        user().in_list(users(), true),
        user().not_eq(lit(uuid("user", 4))),
        user().eq(lit(uuid("user", 4))).is_not_true(),
        user().eq(lit("soon")).is_not_true(),
        user().is_null(),
        user().is_not_null(),
        request().is_null(),
        request().is_not_null(),
        request().eq(path("metadata", &["upper"])).or(request().like(lit("%7a%"))),
        request().lt(lit("2")),
    ] {
        let mut numbers = numbers_of(store, condition).await;
        numbers.sort_unstable();
        found.push(numbers);
    }
    (all(store, "s").await, found)
}

#[tokio::test]
async fn uuids_are_stored_as_16_bytes_and_read_as_texts() {
    let (dir, store) = opened(options());
    filled(&store, 2, |_, _| {}).await;
    let (before, found) = asked(&store).await;
    assert_eq!(found.iter().take(8).map(Vec::len).collect::<Vec<_>>(), [1, 1, 0, 1, 1, 1, 1, 1]);
    assert!(found.iter().skip(24).take(4).all(Vec::is_empty) && !found.last().unwrap().is_empty(), "{found:?}");
    let all = 2 * ROWS as usize;
    let users = (0..2 * ROWS).filter(|number| !number.is_multiple_of(3)).count();
    let counts: Vec<usize> = found.iter().skip(28).map(Vec::len).collect();
    let expected = [2, all - 2, all, all - 1, 2, users - 2, users - 1, all - 1, all, all - users, users, 0, all];
    assert_eq!(counts[..13], expected);
    let expected: Vec<Value> = {
        let mut events: Vec<Value> = (0..2 * ROWS).map(event).collect();
        events.sort_by_key(|event| event["id"].as_str().unwrap().to_owned());
        events
    };
    for (row, event) in before.iter().zip(&expected) {
        for pointer in ["/id", "/metadata/request", "/metadata/user/id", "/metadata/upper", "/metadata/list"] {
            assert_eq!(row.pointer(pointer), event.pointer(pointer));
        }
    }
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
        }
        let files = files(dir.path());
        assert_eq!(files.len(), if merged { 1 } else { 2 });
        for column in ["id", "metadata.request", "metadata.user.id"] {
            assert!(is_packed(&files[0], column), "{column}, merged: {merged}");
        }
        for column in ["metadata.few", "metadata.searched", "metadata.upper", "metadata.bare", "project"] {
            assert!(!is_packed(&files[0], column), "{column}, merged: {merged}");
        }
        assert_eq!(asked(&store).await, (before.clone(), found.clone()));
    }
    drop(store);
    assert_eq!(verify(dir.path()).unwrap().findings, vec![]);
    assert_eq!(asked(&Store::open(dir.path(), options()).unwrap()).await, (before, found));
}

/// A segment with one other text has texts, and so has what is merged with it. One without a value does not matter.
#[tokio::test]
async fn other_values_in_some_segments() {
    let (dir, store) = opened(options());
    filled(&store, 3, |number, event| {
        let metadata = &mut event["metadata"];
        match number / ROWS {
            0 => metadata["absent"] = json!(uuid("absent", number)),
            1 => {
                metadata["request"] = json!(if number % 100 == 7 { "none".to_owned() } else { uuid("request", number) })
            }
            _ => metadata["user"] = json!({"id": number, "name": "x"}),
        }
    })
    .await;
    let (before, found) = asked(&store).await;
    let packed = |files: &[std::path::PathBuf], column: &str| -> Vec<bool> {
        let has = |file: &&std::path::PathBuf| {
            footer(file).row_group(0).columns().iter().any(|chunk| chunk.column_path().string() == column)
        };
        let mut packed: Vec<bool> = files.iter().filter(has).map(|file| is_packed(file, column)).collect();
        packed.sort_unstable();
        packed
    };
    let files_before = files(dir.path());
    assert_eq!(packed(&files_before, "metadata.request"), [false, true, true]);
    assert_eq!(packed(&files_before, "metadata.absent"), [true]);
    store.compact().await.unwrap();
    let files = files(dir.path());
    assert_eq!(files.len(), 1);
    assert_eq!(packed(&files, "id"), [true]);
    assert_eq!(packed(&files, "metadata.request"), [false]);
    assert_eq!(packed(&files, "metadata.absent"), [true]);
    assert_eq!(asked(&store).await, (before.clone(), found.clone()));
    // A text that gets an index later is a text again in what is merged from then on.
    let source = store.source("s").unwrap().id;
    store.index_texts(source, [["metadata", "absent"].map(str::to_owned).to_vec()]).unwrap();
    store.flushed("s", (3 * ROWS..4 * ROWS).map(event).collect()).await;
    let before = all(&store, "s").await;
    store.compact().await.unwrap();
    assert_eq!(all(&store, "s").await, before);
}

/// UUIDs that repeat are packed where the dictionary of a row group would not hold them.
#[tokio::test]
async fn uuids_that_repeat() {
    let (dir, store) = with_source(StoreOptions { manual_flush: true, ..StoreOptions::default() });
    for part in 0..2 {
        let event = |number: u64| {
            let metadata = json!({"twice": uuid("twice", number / 2), "few": uuid("few", number % 2_000)});
            let time = 1_700_000_000_000_000_u64 + number;
            json!({"id": uuid("id", number), "timestamp": time, "n": number, "metadata": metadata})
        };
        store.flushed("s", (part * 8_000..(part + 1) * 8_000).map(event).collect()).await;
    }
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
        }
        let files = files(dir.path());
        assert!(is_packed(&files[0], "metadata.twice") && !is_packed(&files[0], "metadata.few"), "merged: {merged}");
        for (field, number, expected) in
            [("twice", 3_000, vec![6_000, 6_001]), ("few", 7, (0..8).map(|n| 7 + n * 2_000).collect())]
        {
            let mut found = numbers_of(&store, path("metadata", &[field]).eq(lit(uuid(field, number)))).await;
            found.sort_unstable();
            assert_eq!(found, expected, "{field}, merged: {merged}");
        }
    }
}
