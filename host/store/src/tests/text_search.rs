//! The index of trigrams in a scan: what a condition on texts leaves out, and that it leaves out nothing else.

use datafusion::prelude::{DataFrame, col, lit};
use serde_json::{Value, json};
use tidegate_model::TextCondition;

use super::{all, context, damage::files, frame, opened, rows};
use crate::{Store, StoreOptions, narrowed, verify};

const START: i64 = 1_700_000_000_000_000;

/// Two granules in a row group.
fn options() -> StoreOptions {
    StoreOptions { manual_flush: true, run_rows: 5_000, row_group_rows: 4_096, ..StoreOptions::default() }
}

/// One event in 5,000 has a rare text.
fn event(i: i64) -> Value {
    let rare = if i % 5_000 == 3_210 { " Order-77 NOT found" } else { "" };
    json!({
        "id": format!("{i:06}"), "timestamp": START + i, "project": format!("p{}", i % 3),
        "event_message": format!("GET {:08x} /rest/v1/items{rare}", i.wrapping_mul(2_654_435_761) as u32),
        "n": i,
    })
}

async fn filled(store: &Store) {
    store.create_source("s").unwrap();
    for part in 0..3 {
        store.flushed("s", (part * 10_000..part * 10_000 + 10_000).map(event).collect()).await;
    }
}

fn contains(part: &str) -> TextCondition {
    TextCondition::Contains { column: "event_message".to_owned(), part: part.to_owned() }
}

/// The table with a condition, of which no filter is left: rows that the scan reads.
fn read(store: &Store, condition: TextCondition) -> DataFrame {
    let table = store.table("s").unwrap();
    let table = narrowed(table.as_ref(), table.schema(), Some(condition)).unwrap();
    context().read_table(table).unwrap()
}

fn rare(rows: &[Value]) -> Vec<Value> {
    let mut rare: Vec<Value> = rows.iter().filter(|row| row["n"].as_i64().unwrap() % 5_000 == 3_210).cloned().collect();
    rare.sort_by_key(|row| row["n"].as_i64());
    rare
}

#[tokio::test]
async fn granules_without_a_text_are_not_read() {
    let (_dir, store) = opened(options());
    filled(&store).await;
    let everything = rows(frame(&store, "s")).await;
    assert_eq!((everything.len(), rare(&everything).len()), (30_000, 6));
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
            assert_eq!(store.stats().merges, 1);
        }
        let found = rows(read(&store, contains("order-77"))).await;
        assert_eq!(rare(&found), rare(&everything));
        assert!(found.len() <= 6 * 2_048, "{} rows are read", found.len());
        assert_eq!(rows(read(&store, contains("order-78"))).await, Vec::<Value>::new());
        assert_eq!(rows(read(&store, contains("/rest/v1"))).await.len(), 30_000);
        // Shorter than a trigram, or of another column: nothing is known.
        assert_eq!(rows(read(&store, contains("zz"))).await.len(), 30_000);
        let other = TextCondition::Contains { column: "id".to_owned(), part: "nowhere".to_owned() };
        assert_eq!(rows(read(&store, other.clone())).await.len(), 30_000);
        assert_eq!(rows(read(&store, TextCondition::Any(vec![other, contains("nowhere")]))).await.len(), 30_000);
        // With the runs of a project, newest first, and a limit.
        let of_project = read(&store, contains("order-77")).filter(col("project").eq(lit("p0"))).unwrap();
        let newest = of_project.sort(vec![col("timestamp").sort(false, false)]).unwrap();
        let found = rows(newest.clone()).await;
        let mine = |row: &&Value| row["project"] == "p0";
        assert_eq!(rare(&found), rare(&everything).iter().filter(mine).cloned().collect::<Vec<_>>());
        assert!(found.len() < 10_000 && found.is_sorted_by_key(|row| -row["n"].as_i64().unwrap()), "{}", found.len());
        assert_eq!(rows(newest.limit(0, Some(7)).unwrap()).await, found[..7]);
    }
    // Rows in memory are all read, and so is a segment of few rows.
    store.ingest("s", (30_000..30_100).map(event).collect()).await.unwrap();
    assert_eq!(rows(read(&store, contains("order-78"))).await.len(), 100);
    store.flush().await.unwrap();
    assert_eq!(rows(read(&store, contains("order-78"))).await.len(), 100);
}

const URL: &str = "/metadata/web/url";

/// The table of a source with texts in records; some rows have theirs in another form, or elsewhere.
fn event_with_url(i: i64) -> Value {
    let mut event = event(i);
    let url = format!("https://{:08x}.example/p{}", i.wrapping_mul(2_654_435_761) as u32, i / 6_000);
    event["metadata"] = match i % 14_000 {
        1_001 => json!({"web": {"url": {"of": url}}}),
        1_002 => json!({"web": {"url": [url, 1]}}),
        1_003 => json!({"web": url}),
        1_004 => json!({"web": {"url": i}}),
        _ => json!({"web": {"url": url}}),
    };
    event
}

#[tokio::test]
async fn texts_in_records_are_searched_where_they_are_indexed() {
    let (_dir, store) = opened(options());
    let source = store.create_source("s").unwrap().id;
    let of_url = |part: &str| TextCondition::Contains { column: URL.to_owned(), part: part.to_owned() };
    let numbers = |rows: &[Value]| -> Vec<i64> {
        let mut numbers: Vec<i64> = rows.iter().map(|row| row["n"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    for part in 0..3 {
        if part == 1 {
            // The first segment was written before.
            store.index_texts(source, [["metadata", "web", "url"].map(str::to_owned).to_vec()]).unwrap();
        }
        let events = (part * 10_000..part * 10_000 + 10_000).map(event_with_url).collect();
        store.flushed("s", events).await;
    }
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
            assert_eq!(store.stats().merges, 1);
        }
        // Rows from 18,000 on have it; those whose text is not in the column are read in any case.
        let found = numbers(&rows(read(&store, of_url(".example/p3"))).await);
        assert!((18_000..24_000).all(|n| found.binary_search(&n).is_ok()), "{}", found.len());
        let others = (0..30_000).filter(|n| matches!(n % 14_000, 1_001..=1_004));
        assert!(others.clone().all(|n| found.binary_search(&n).is_ok()), "{}", found.len());
        assert!(found.len() < 26_000 || !merged, "{} rows are read", found.len());
        let nowhere = numbers(&rows(read(&store, of_url("nowhere"))).await);
        assert!(others.clone().all(|n| nowhere.binary_search(&n).is_ok()), "{}", nowhere.len());
        // The granules of these rows, and the segment without an index.
        let most = if merged { 9 * 2_048 } else { 10_000 + 6 * 2_048 };
        assert!(nowhere.len() <= most, "{} rows are read", nowhere.len());
        // The index of the messages is another one.
        let found = rows(read(&store, TextCondition::All(vec![of_url(".example/p3"), contains("order-77")]))).await;
        let expected = (18_000..24_000).filter(|n| n % 5_000 == 3_210).collect::<Vec<i64>>();
        assert_eq!(numbers(&rare(&found)).iter().filter(|n| (18_000..24_000).contains(*n)).count(), expected.len());
        assert!(found.len() <= 6 * 2_048, "{} rows are read", found.len());
    }
}

#[tokio::test]
async fn a_damaged_index_is_an_error() {
    let (dir, store) = opened(options());
    filled(&store).await;
    let file = files(dir.path()).remove(0);
    let bytes = std::fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let place = text.split("tidegate.trigrams").nth(1).unwrap();
    let number = |key: &str| -> usize {
        let digits = place.split(&format!("\"{key}\":")).nth(1).unwrap();
        digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let (start, length) = (number("start"), number("bytes"));
    for at in [start, start + length / 2, start + length - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&file, changed).unwrap();
        let copy = tempfile::tempdir().unwrap();
        super::durability::copy(dir.path(), copy.path());
        assert_eq!(verify(copy.path()).unwrap().findings.len(), 1);
        let store = Store::open(copy.path(), options()).unwrap();
        match read(&store, contains("order-77")).collect().await {
            Err(error) => assert!(error.to_string().contains("verify"), "{error}"),
            // A part that this search does not read.
            Ok(batches) => assert!(at > start, "{} batches", batches.len()),
        }
    }
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(all(&store, "s").await.len(), 30_000);
}
