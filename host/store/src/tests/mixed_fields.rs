//! Fields whose values are of several kinds are counted.

use serde_json::json;

use super::{frame, manual, opened};

#[tokio::test]
async fn a_source_whose_field_flips_is_told() {
    let (_dir, store) = opened(manual());
    for source in ["plain", "few", "flips"] {
        store.create_source(source).unwrap();
    }
    for call in 0..5 {
        let events = |mixed: fn(i32) -> bool| {
            let event = |n: i32| json!({"value": if mixed(n) { json!("text") } else { json!(n) }});
            (0..500).map(event).collect::<Vec<_>>()
        };
        store.ingest("plain", events(|_| false)).await.unwrap();
        store.ingest("few", events(|n| n == 77)).await.unwrap();
        store.ingest("flips", events(|n| n % 2 == 1)).await.unwrap();
        for source in ["plain", "few", "flips"] {
            assert_eq!(frame(&store, source).count().await.unwrap(), 500 * (call + 1));
        }
        assert_eq!(store.stats().mixed_sources, u64::from(call >= 3));
    }
    assert_eq!(store.stats().overflowing_sources, 0);
}
