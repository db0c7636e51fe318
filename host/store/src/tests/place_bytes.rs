//! What the places of rows take in segments.

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::json;

use super::{manual, with_source};
use crate::{StoreOptions, field_names::PLACE};

/// Bytes a row of the columns of places, and of all columns, in segments of calls of so many events.
async fn bytes_a_row(rows: usize, of_call: usize) -> (f64, f64) {
    let (_dir, store) = with_source(StoreOptions { durable: false, ..manual() });
    let event = |i: usize| {
        // Like random numbers: what follows a pattern would be compressed by it.
        let random = |what: u64| {
            let mixed = (i as u64 * 16 + what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ (mixed >> 32)
        };
        // One project has about a third of all events. They come about in the order of their times.
        let project = if random(0).is_multiple_of(3) { 0 } else { random(1) % 50 };
        let (status, path, host) = (200 + random(2) % 5, random(3) % 40, random(4) % 4_000);
        json!({
            "id": format!("{:016x}{:016x}", random(5), random(6)),
            "timestamp": 1_700_000_000_000_000 + i as u64 * 1_000 + random(7) % 2_000_000,
            "project": format!("project{project:02}"),
            "event_message": format!("GET | {status} | 10.0.0.{host} | /rest/v1/items{path}?id=eq.{}", random(8) % 100_000),
            "metadata": {"request": {"method": "GET", "path": format!("/rest/v1/items{path}")},
                "response": {"status_code": status, "origin_time": random(9) % 997}},
        })
    };
    for part in 0..rows / of_call {
        store.ingest("s", (part * of_call..(part + 1) * of_call).map(event).collect()).await.unwrap();
        if (part + 1) * of_call % (rows / 4) < of_call {
            store.flush().await.unwrap();
        }
    }
    store.flush().await.unwrap();
    store.compact().await.unwrap();
    let (mut of_places, mut of_all) = (0, 0);
    for segment in store.get(store.source("s").unwrap().id).unwrap().segments().iter() {
        let file = SerializedFileReader::new(std::fs::File::open(segment.path().unwrap()).unwrap()).unwrap();
        for column in file.metadata().row_groups().iter().flat_map(|group| group.columns()) {
            let is_place = PLACE.contains(&column.column_path().string().as_str());
            of_places += if is_place { column.compressed_size() } else { 0 };
            of_all += column.compressed_size();
        }
    }
    (of_places as f64 / rows as f64, of_all as f64 / rows as f64)
}

/// `cargo test -p tidegate-store --lib places_take_few_bytes -- --nocapture` shows the figures of
/// docs/contributing/measurements/storage.md, with 100,000 rows if PLACE_ROWS says so.
#[tokio::test]
async fn places_take_few_bytes() {
    let rows = std::env::var("PLACE_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(10_000);
    for of_call in [1, 20, 500] {
        let (places, all) = bytes_a_row(rows, of_call).await;
        println!("{rows} rows, {of_call} a call: {places:.2} of {all:.2} bytes a row");
        assert!(places < 4.0, "{of_call} rows a call: {places} bytes a row");
    }
}
