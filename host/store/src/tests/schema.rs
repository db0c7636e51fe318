//! What is stored comes back: shapes, growth, conflicts, odd names, before and after a flush.

use datafusion::arrow::datatypes::DataType;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{all, field, frame, open, path, rows};
use crate::{
    Ingested, RefusedEvent, StoreError,
    event::{Times, normalise},
};

#[tokio::test]
async fn empty_source_has_its_columns_and_no_rows() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    store.create_source("s").unwrap();
    let table = store.table("s").unwrap();
    let names: Vec<String> = table.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["id", "timestamp", "event_message", "_overflow"]);
    assert_eq!(all(&store, "s").await, Vec::<Value>::new());
    store.flush().await.unwrap();
    assert_eq!(frame(&store, "s").count().await.unwrap(), 0);
    assert!(matches!(store.table("t"), Err(StoreError::UnknownSource { .. })));
    assert!(matches!(store.create_source("s"), Err(StoreError::Exists(_))));
    assert!(matches!(store.create_source("a\nb"), Err(StoreError::InvalidName { .. })));
    assert_eq!(store.ensure_source("s").unwrap(), store.source("s").unwrap());
    assert_eq!(store.source(&store.source("s").unwrap().id.to_string()).unwrap().name, "s");
}

#[tokio::test]
async fn a_bad_event_is_refused_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    store.create_source("s").unwrap();
    let reason = "an event must be a JSON object, not a string".to_owned();
    let refused = vec![RefusedEvent { index: 1, reason }];
    let told = store.ingest("s", vec![json!({"id": "a"}), json!("text"), json!({"id": "b"})]).await.unwrap();
    assert_eq!(told, Ingested { stored: 2, refused, ..Ingested::default() });
    let told = store.ingest("s", vec![json!("text")]).await.unwrap();
    assert_eq!((told.stored, told.refused.len()), (0, 1));
    assert_eq!(frame(&store, "s").count().await.unwrap(), 2);
    drop(store);
    assert_eq!(frame(&open(&dir), "s").count().await.unwrap(), 2);
}

/// Every stage of a row's life must read the same: memory, joined memory, segment, reopened.
async fn at_every_stage(calls: Vec<Vec<Value>>, check: impl AsyncFn(&crate::Store)) {
    // All in memory.
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    store.create_source("s").unwrap();
    for call in calls.clone() {
        store.ingest("s", call).await.unwrap();
    }
    check(&store).await;
    store.flush().await.unwrap();
    check(&store).await;
    drop(store);
    check(&open(&dir)).await;

    // A segment per call; then one call in memory and the rest in segments.
    for last_in_memory in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        store.create_source("s").unwrap();
        let count = calls.len();
        for (i, call) in calls.iter().cloned().enumerate() {
            store.ingest("s", call).await.unwrap();
            if i + 1 < count || !last_in_memory {
                store.flush().await.unwrap();
            } else {
                store.table("s").unwrap();
            }
        }
        check(&store).await;
        drop(store);
        let store = open(&dir);
        check(&store).await;
    }

    // Columns made after each call, so that batches of different shapes are joined.
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    store.create_source("s").unwrap();
    for call in calls {
        store.ingest("s", call).await.unwrap();
        store.table("s").unwrap();
    }
    check(&store).await;
    store.flush().await.unwrap();
    check(&store).await;
}

#[tokio::test]
async fn both_flavours_are_one() {
    let hosted =
        json!({"id": "1", "timestamp": 1, "metadata": [{"request": [{"method": "GET", "headers": [{"host": "h"}]}]}]});
    let shipped =
        json!({"id": "2", "timestamp": 2, "metadata": {"request": {"method": "PUT", "headers": {"host": "i"}}}});
    at_every_stage(vec![vec![hosted], vec![shipped]], async |store| {
        let schema = store.table("s").unwrap().schema();
        assert!(matches!(schema.field_with_name("metadata").unwrap().data_type(), DataType::Struct(_)));
        let got = all(store, "s").await;
        assert_eq!(got[0]["metadata"], json!({"request": {"method": "GET", "headers": {"host": "h"}}}));
        assert_eq!(got[1]["metadata"], json!({"request": {"method": "PUT", "headers": {"host": "i"}}}));
        let hosts = frame(store, "s")
            .filter(path("metadata", &["request", "method"]).eq(datafusion::prelude::lit("PUT")))
            .unwrap()
            .select(vec![path("metadata", &["request", "headers", "host"]).alias("host")])
            .unwrap();
        assert_eq!(rows(hosts).await, [json!({"host": "i"})]);
    })
    .await;
}

#[tokio::test]
async fn schemas_grow_across_segments_and_memory() {
    let calls = vec![
        vec![json!({"id": "1", "timestamp": 1, "a": 1, "metadata": {"x": 1}})],
        vec![json!({"id": "2", "timestamp": 2, "b": "t", "metadata": {"y": {"z": [1, 2]}}})],
        vec![json!({"id": "3", "timestamp": 3, "a": 2.5, "metadata": {"x": 7, "y": {"w": true}}})],
        vec![json!({"id": "4", "timestamp": 4})],
    ];
    at_every_stage(calls, async |store| {
        let got = all(store, "s").await;
        assert_eq!(
            got,
            [
                json!({"id": "1", "timestamp": 1_000_000, "a": 1.0, "metadata": {"x": 1}}),
                json!({"id": "2", "timestamp": 2_000_000, "b": "t", "metadata": {"y": {"z": [1, 2]}}}),
                json!({"id": "3", "timestamp": 3_000_000, "a": 2.5, "metadata": {"x": 7, "y": {"w": true}}}),
                json!({"id": "4", "timestamp": 4_000_000}),
            ]
        );
        let paths = frame(store, "s")
            .select(vec![
                datafusion::prelude::col("id"),
                path("metadata", &["x"]).alias("x"),
                path("metadata", &["y", "w"]).alias("w"),
                path("metadata", &["y", "z"]).alias("z"),
            ])
            .unwrap()
            .sort(vec![datafusion::prelude::col("id").sort(true, false)])
            .unwrap();
        assert_eq!(
            rows(paths).await,
            [
                json!({"id": "1", "x": 1}),
                json!({"id": "2", "z": [1, 2]}),
                json!({"id": "3", "x": 7, "w": true}),
                json!({"id": "4"}),
            ]
        );
        // Arithmetic over a widened column, filtered in each segment.
        let wide = frame(store, "s").filter(path("a", &[]).gt_eq(datafusion::prelude::lit(1.0))).unwrap();
        assert_eq!(wide.count().await.unwrap(), 2);
    })
    .await;
}

#[tokio::test]
async fn several_records_make_a_list_for_ever() {
    let calls = vec![
        vec![json!({"id": "1", "timestamp": 1, "metadata": [{"a": 1, "s": "x"}]}), json!({"id": "2", "timestamp": 2})],
        vec![json!({"id": "3", "timestamp": 3, "metadata": [{"a": 2}, {"a": 3, "b": {"c": [{"d": 1}, {"d": 2}]}}]})],
        vec![json!({"id": "4", "timestamp": 4, "metadata": {"b": {"c": {"d": 3}}}})],
    ];
    at_every_stage(calls, async |store| {
        let got = all(store, "s").await;
        assert_eq!(field(&got[0], "/metadata"), &json!([{"a": 1, "s": "x"}]));
        assert_eq!(field(&got[1], "/metadata"), &Value::Null);
        assert_eq!(field(&got[2], "/metadata"), &json!([{"a": 2}, {"a": 3, "b": {"c": [{"d": 1}, {"d": 2}]}}]));
        assert_eq!(field(&got[3], "/metadata"), &json!([{"b": {"c": [{"d": 3}]}}]));
    })
    .await;
}

#[tokio::test]
async fn conflicts_are_readable() {
    let calls = vec![
        vec![
            json!({"id": "1", "timestamp": 1, "level": 3, "metadata": {"status": 200, "many": [{"v": 1}, {"v": 2}]}}),
            json!({"id": "2", "timestamp": 2, "level": "info", "metadata": {"status": "ok"}}),
        ],
        vec![
            json!({"id": "3", "timestamp": 3, "level": true, "metadata": {"status": 1.5, "many": [{"v": "a"}, {"v": 4}]}}),
        ],
        vec![
            json!({"id": "4", "timestamp": 4, "level": {"deep": 1}, "metadata": {"status": null, "many": {"v": "b"}}}),
        ],
        vec![json!({"id": "5", "timestamp": 5, "metadata": {"status": 500}})],
    ];
    at_every_stage(calls, async |store| {
        let got = all(store, "s").await;
        let read = |pointer: &str| got.iter().map(|row| field(row, pointer).clone()).collect::<Vec<_>>();
        assert_eq!(read("/level"), [json!("3"), json!("info"), json!("true"), json!("{\"deep\":1}"), Value::Null]);
        assert_eq!(read("/metadata/status"), [json!("200"), json!("ok"), json!("1.5"), Value::Null, json!("500")]);
        assert_eq!(read("/metadata/many")[0], json!([{"v": "1"}, {"v": "2"}]));
        assert_eq!(read("/metadata/many")[2], json!([{"v": "a"}, {"v": "4"}]));
        assert_eq!(read("/metadata/many")[3], json!([{"v": "b"}]));
        assert_eq!(read("/_overflow")[0], Value::Null);
        let spilled: Value = serde_json::from_str(read("/_overflow")[2].as_str().unwrap()).unwrap();
        assert_eq!(spilled["/metadata/many/0/v"], json!("a"));
        // As a leaf, and in a filter that must not be pruned by the leaf's own statistics.
        for (value, expected) in [("ok", "2"), ("500", "5"), ("1.5", "3")] {
            let found = frame(store, "s")
                .filter(path("metadata", &["status"]).eq(datafusion::prelude::lit(value)))
                .unwrap()
                .select_columns(&["id"])
                .unwrap();
            assert_eq!(rows(found).await, [json!({"id": expected})], "{value}");
        }
    })
    .await;
}

/// The column's type is text on both sides here, and nothing but the overflow has the number.
#[tokio::test]
async fn text_first_mixed_path_without_filter() {
    let calls = vec![vec![
        json!({"id": "1", "timestamp": 1, "code": "x", "metadata": {"code": "y"}}),
        json!({"id": "2", "timestamp": 2, "code": 7, "metadata": {"code": 8}}),
    ]];
    at_every_stage(calls, async |store| {
        let got = all(store, "s").await;
        assert_eq!((&got[0]["code"], &got[1]["code"]), (&json!("x"), &json!("7")));
        assert_eq!((&got[0]["metadata"]["code"], &got[1]["metadata"]["code"]), (&json!("y"), &json!("8")));
        let leaf = frame(store, "s").select(vec![path("metadata", &["code"]).alias("c")]).unwrap();
        assert_eq!(rows(leaf).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn integers_keep_their_digits() {
    let big = 9_007_199_254_740_993_i64; // 2^53 + 1
    let calls = vec![
        vec![json!({"id": "1", "timestamp": 1, "q": big, "f": 0.5, "u": 1.5})],
        vec![json!({"id": "2", "timestamp": 2, "q": i64::MIN, "f": big, "u": u64::MAX})],
        vec![json!({"id": "3", "timestamp": 3, "q": 0.5})],
    ];
    at_every_stage(calls, async |store| {
        let got = all(store, "s").await;
        // A float among integers that no float can hold: the path is mixed, every digit readable.
        assert_eq!(got[0]["q"], json!("9007199254740993"));
        assert_eq!(got[1]["q"], json!("-9223372036854775808"));
        assert_eq!(got[2]["q"], json!("0.5"));
        // An integer among floats: the nearest float, the digits in the overflow.
        assert_eq!(got[1]["f"], json!(big as f64));
        let spilled: Value = serde_json::from_str(got[1]["_overflow"].as_str().unwrap()).unwrap();
        assert_eq!((&spilled["/f"], &spilled["/u"]), (&json!(big), &json!(u64::MAX)));
    })
    .await;
}

#[tokio::test]
async fn odd_keys_and_values() {
    let event = json!({
        "id": "1", "timestamp": 1, "event_message": "{\"not\": json\u{0}",
        "a.b": 1, "": 2, "Level": "U", "level": "l", "ключ": {"née": "é", "a/b~c": [[1]]}, "sp ace\"'`": true,
        "_overflow": "mine", "metadata": "just text", "select": {"from": {"where": 1}}, "nums": [1, 2.5],
        "mixed": [1, "a"], "emoji🎉": ["😀"], "timestamp2": "2025-01-01",
    });
    at_every_stage(vec![vec![event]], async |store| {
        let got = all(store, "s").await.remove(0);
        for (pointer, value) in [
            ("/a.b", json!(1)),
            ("/", json!(2)),
            ("/Level", json!("U")),
            ("/level", json!("l")),
            ("/ключ", json!({"née": "é"})),
            ("/sp ace\"'`", json!(true)),
            ("/select/from/where", json!(1)),
            ("/nums", json!([1.0, 2.5])),
            ("/emoji🎉", json!(["😀"])),
            ("/event_message", json!("{\"not\": json\u{0}")),
        ] {
            assert_eq!(field(&got, pointer), &value, "{pointer}");
        }
        let spilled: Value = serde_json::from_str(got["_overflow"].as_str().unwrap()).unwrap();
        assert_eq!(
            spilled,
            json!({"/_overflow": "mine", "/metadata": "just text", "/mixed": [1, "a"], "/ключ/a~1b~0c": [[1]]})
        );
        let odd = frame(store, "s").select(vec![path("a.b", &[]).alias("x"), path("ключ", &["née"]).alias("y")]);
        assert_eq!(rows(odd.unwrap()).await, [json!({"x": 1, "y": "é"})]);
    })
    .await;
}

#[tokio::test]
async fn caps_send_the_rest_to_the_overflow() {
    let dir = tempfile::tempdir().unwrap();
    let options = crate::StoreOptions { max_leaves: 6, max_depth: 3, ..super::manual() };
    let store = crate::Store::open(dir.path(), options).unwrap();
    store.create_source("s").unwrap();
    let event = json!({"id": "1", "timestamp": 1, "a": {"b": {"c": {"d": 1}, "e": 2}}, "f": 3, "g": 4, "h": 5});
    store.ingest("s", vec![event]).await.unwrap();
    for _ in 0..2 {
        let got = all(&store, "s").await.remove(0);
        assert_eq!(got["a"], json!({"b": {"e": 2}}));
        assert_eq!((&got["f"], &got["g"], field(&got, "/h")), (&json!(3), &json!(4), &Value::Null));
        let spilled: Value = serde_json::from_str(got["_overflow"].as_str().unwrap()).unwrap();
        assert_eq!(spilled, json!({"/a/b/c": {"d": 1}, "/h": 5}));
        store.flush().await.unwrap();
    }
}

/// Any JSON value whose numbers are exact, so that "the same" is plain equality.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000_i32..1000).prop_map(Value::from),
        (-1000_i32..1000).prop_map(|n| Value::from(f64::from(n) + 0.5)),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-d~/]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The row as it was sent: the columns, with the overflow put back where it came from.
fn restore(mut row: Value) -> Value {
    let spilled: Map<String, Value> = match row.as_object_mut().unwrap().remove("_overflow") {
        Some(text) => serde_json::from_str(text.as_str().unwrap()).unwrap(),
        None => Map::new(),
    };
    for (pointer, value) in spilled {
        put(&mut row, &pointer, value);
    }
    row
}

fn put(row: &mut Value, pointer: &str, value: Value) {
    let mut place = row;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        // A single record shows as a list of one where the source has lists.
        if matches!(place, Value::Array(items) if items.len() == 1) {
            place = place.get_mut(0).unwrap();
        }
        place = match place {
            Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
            Value::Object(map) => map.entry(step).or_insert(Value::Null),
            other => {
                *other = Value::Object(Map::new());
                other.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
            }
        };
    }
    *place = value;
}

/// Both sides in one spelling: singletons unwrapped, scalars as text (a mixed path reads as text).
fn same_spelling(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.len() == 1 && items[0].is_object() => same_spelling(&items[0]),
        Value::Array(items) => items.iter().map(same_spelling).collect(),
        Value::Object(map) => {
            let kept = map.iter().map(|(k, v)| (k.clone(), same_spelling(v)));
            let mut sorted: Vec<_> = kept.filter(|(_, v)| !v.is_null()).collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(sorted.into_iter().collect())
        }
        Value::Number(n) if n.is_f64() && n.as_f64().unwrap().fract() == 0.0 => {
            (n.as_f64().unwrap() as i64).to_string().into()
        }
        Value::Number(n) => n.to_string().into(),
        Value::Bool(b) => b.to_string().into(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_value_comes_back(bodies in prop::collection::vec(any_value(), 1..8), flush_at in 0_usize..8) {
        let events: Vec<Value> = bodies
            .into_iter()
            .enumerate()
            .map(|(i, body)| json!({"id": i.to_string(), "timestamp": i, "body": body, "metadata": {"m": i}}))
            .collect();
        let expected: Vec<Value> = events
            .iter()
            .map(|event| Value::Object(normalise(event.as_object().unwrap().clone(), 0, &mut Times::default())))
            .map(|event| same_spelling(&restore_input(event)))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let got: Vec<Vec<Value>> = runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let store = open(&dir);
            store.create_source("s").unwrap();
            for (i, event) in events.into_iter().enumerate() {
                store.ingest("s", vec![event]).await.unwrap();
                if i == flush_at {
                    store.flush().await.unwrap();
                } else if i % 2 == 0 {
                    store.table("s").unwrap();
                }
            }
            let first = all(&store, "s").await;
            store.flush().await.unwrap();
            let second = all(&store, "s").await;
            vec![first, second]
        });
        for rows in got {
            let rows: Vec<Value> = rows.into_iter().map(|row| same_spelling(&restore(row))).collect();
            prop_assert_eq!(&rows, &expected);
        }
    }
}

fn restore_input(mut event: Value) -> Value {
    event.as_object_mut().unwrap().remove("_overflow");
    event
}

/// Rows without a record are told from rows with one by its presence alone, in memory as in
/// segments.
#[tokio::test]
async fn a_record_that_is_not_there_has_no_presence() {
    let events = vec![
        json!({"id": "1", "timestamp": 1, "metadata": {"request": {"method": "GET"}}}),
        json!({"id": "2", "timestamp": 2, "metadata": {"level": "info"}}),
        json!({"id": "3", "timestamp": 3}),
    ];
    at_every_stage(vec![events], async |store| {
        for (keys, expected) in [(&["_present"][..], 2), (&["request", "_present"][..], 1)] {
            let found = frame(store, "s").filter(path("metadata", keys).is_not_null()).unwrap().select_columns(&["id"]);
            assert_eq!(rows(found.unwrap()).await.len(), expected, "{keys:?}");
        }
    })
    .await;
}
