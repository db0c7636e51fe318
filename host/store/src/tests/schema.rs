//! What is stored comes back: shapes, growth, conflicts, odd names, before and after a flush.

use datafusion::{
    arrow::datatypes::DataType,
    functions_nested::expr_fn::{array_has, array_length},
    prelude::{Expr, col, lit},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{again, all, field, frame, manual, open, path, rows, with_source};
use crate::{Ingested, RefusedEvent, StoreError, ingest::tape_reader::stored_events, intake::Intake};

#[tokio::test]
async fn empty_source_has_its_columns_and_no_rows() {
    let (_dir, store) = with_source(manual());
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
    let (dir, store) = with_source(manual());
    let reason = "an event must be a JSON object, not a string".to_owned();
    let refused = vec![RefusedEvent { index: 1, reason, is_conflict: false }];
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
    let (dir, store) = with_source(manual());
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
        let (dir, store) = with_source(manual());
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
        let store = again(store, dir.path(), manual());
        check(&store).await;
    }

    // Columns made after each call, so that batches of different shapes are joined.
    let (_dir, store) = with_source(manual());
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

/// A filter over a path whose older segments have a list, or one record, where the table has a text, or a list of records: the
/// engine's reader ignores a condition on such a column.
#[tokio::test]
async fn a_filter_holds_for_segments_that_store_the_path_as_a_list_or_a_record() {
    let calls = vec![
        vec![
            json!({"id": "1", "timestamp": 1, "tags": ["a", "b"], "m": {"tags": [1]}, "many": {"v": 1}, "r": {"many": {"v": 1}}}),
            json!({"id": "2", "timestamp": 2}),
        ],
        vec![
            json!({"id": "3", "timestamp": 3, "tags": 5, "m": {"tags": "x"}, "many": [{"v": 2}, {"v": 3}], "r": {"many": [{"v": 2}, {"v": 3}]}}),
        ],
    ];
    at_every_stage(calls, async |store| {
        let found = async |condition: Expr| {
            let rows_found = frame(store, "s").filter(condition).unwrap();
            let counted = rows_found.clone().count().await.unwrap();
            let mut ids: Vec<String> = rows(rows_found.select_columns(&["id"]).unwrap())
                .await
                .iter()
                .map(|row| row["id"].as_str().unwrap().to_owned())
                .collect();
            ids.sort();
            assert_eq!(counted, ids.len());
            ids
        };
        for (condition, expected) in [
            (path("tags", &[]).eq(lit("5")), vec!["3"]),
            (path("tags", &[]).eq(lit("[\"a\",\"b\"]")), vec!["1"]),
            (path("tags", &[]).is_null(), vec!["2"]),
            (path("m", &["tags"]).eq(lit("x")), vec!["3"]),
            (path("m", &["tags"]).eq(lit("[1]")), vec!["1"]),
            (path("m", &["tags"]).is_not_null(), vec!["1", "3"]),
            (path("many", &[]).is_null(), vec!["2"]),
            (path("many", &[]).is_not_null().and(path("id", &[]).not_eq(lit("1"))), vec!["3"]),
            (path("r", &["many"]).is_not_null(), vec!["1", "3"]),
            (path("r", &["many"]).is_null(), vec!["2"]),
        ] {
            assert_eq!(found(condition.clone()).await, expected, "{condition}");
        }
    })
    .await;
}

/// A condition is rewritten for the columns of each segment, which can take the function from it that the engine's reader knows
/// of lists: the reader ignores what is left then.
#[tokio::test]
async fn a_filter_of_lists_holds_where_a_part_of_it_is_decided() {
    let calls = vec![
        vec![json!({"id": "1", "timestamp": 1, "tags": ["a"], "m": {"tags": [1, 2, 3]}})],
        vec![
            json!({"id": "2", "timestamp": 2, "tags": ["a", "b", "c"], "m": {"tags": [1]}, "other": ["x"], "n": 1}),
            json!({"id": "3", "timestamp": 3, "tags": ["b", "a"], "m": {"tags": [7]}, "other": ["y"], "n": 2}),
        ],
        vec![json!({"id": "4", "timestamp": 4})],
    ];
    let tags = || path("tags", &[]);
    at_every_stage(calls, async |store| {
        for (condition, expected) in [
            (tags().is_null().or(array_length(tags()).lt(lit(2_u64))), vec!["1", "4"]),
            (tags().is_null().or(array_length(tags()).gt(lit(2_u64))), vec!["2", "4"]),
            (path("id", &[]).is_null().or(array_length(tags()).gt(lit(1_u64))), vec!["2", "3"]),
            (path("n", &[]).is_null().or(array_length(tags()).gt(lit(2_u64))), vec!["1", "2", "4"]),
            (array_has(path("other", &[]), lit("x")).or(array_length(tags()).lt(lit(2_u64))), vec!["1", "2"]),
            (array_has(tags(), lit("b")), vec!["2", "3"]),
            (array_has(path("m", &["tags"]), lit(7_i64)).or(path("m", &["tags"]).is_null()), vec!["3", "4"]),
            (path("m", &["tags"]).is_null().or(array_length(path("m", &["tags"])).gt(lit(2_u64))), vec!["1", "4"]),
        ] {
            let found = frame(store, "s").filter(condition.clone()).unwrap().select_columns(&["id"]).unwrap();
            let mut ids: Vec<Value> = rows(found).await.iter().map(|row| row["id"].clone()).collect();
            ids.sort_by_key(ToString::to_string);
            assert_eq!(ids, expected, "{condition}");
        }
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
            ("/ключ/née", json!("é")),
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
        // They are read under their own names as well.
        assert_eq!(got["_overflow_fields"], json!("{\"_overflow\":\"mine\"}"));
        assert_eq!(got["mixed"], json!("[1,\"a\"]"));
        assert_eq!(field(&got, "/ключ/a~1b~0c"), &json!("[[1]]"));
        assert_eq!(got["metadata"], json!({"_overflow_value": "\"just text\""}));
        let odd = frame(store, "s").select(vec![path("a.b", &[]).alias("x"), path("ключ", &["née"]).alias("y")]);
        assert_eq!(rows(odd.unwrap()).await, [json!({"x": 1, "y": "é"})]);
    })
    .await;
}

#[tokio::test]
async fn caps_send_the_rest_to_the_overflow() {
    let options = crate::StoreOptions { max_fields: 9, max_depth: 3, ..manual() };
    let (_dir, store) = with_source(options);
    let long = "k".repeat(129);
    let event = json!({"id": "1", "timestamp": 1, "a": {"b": {"c": {"d": 1}, "e": 2, "_present": 7, long.clone(): 8}},
        "f": 3, "g": {"x": [{"y": 4}, 5]}, "h": 5});
    store.ingest("s", vec![event]).await.unwrap();
    for _ in 0..2 {
        let got = all(&store, "s").await.remove(0);
        let rest: Value = serde_json::from_str(field(&got, "/a/b/_overflow_fields").as_str().unwrap()).unwrap();
        assert_eq!(rest, json!({"c": {"d": 1}, "_present": 7, long.clone(): 8}));
        assert_eq!((&got["f"], field(&got, "/a/b/e"), field(&got, "/h")), (&json!(3), &json!(2), &Value::Null));
        let spilled: Value = serde_json::from_str(got["_overflow"].as_str().unwrap()).unwrap();
        let long = format!("/a/b/{long}");
        assert_eq!(
            spilled,
            json!({"/a/b/c": {"d": 1}, "/a/b/_present": 7, long: 8, "/g": {"x": [{"y": 4}, 5]}, "/h": 5})
        );
        // The hidden fields alone, as narrow reads ask for them.
        let narrow = frame(&store, "s").select(vec![path("a", &["b", "_overflow_fields"]).alias("rest")]).unwrap();
        assert_eq!(rows(narrow).await.len(), 1);
        store.flush().await.unwrap();
    }
    assert_eq!(store.get(store.source("s").unwrap().id).unwrap().snapshot().unwrap().shape.count(), 9);
}

/// A thousand keys, each nested as deep as columns go: the source takes what it may have and no more.
#[tokio::test]
async fn a_schema_bomb_fills_a_source_and_not_a_statement() {
    let (_dir, store) = with_source(manual());
    let deep = |leaf: usize| (0..29).fold(json!(leaf), |inner, _| json!({"d": inner}));
    let bomb: Map<String, Value> = (0..1000).map(|key| (format!("k{key}"), deep(key))).collect();
    store.ingest("s", vec![json!({"id": "1", "timestamp": 1, "metadata": bomb.clone()})]).await.unwrap();
    store.ingest("s", vec![json!({"id": "2", "timestamp": 2, "metadata": {"status": 500}})]).await.unwrap();
    for _ in 0..2 {
        fn width(data_type: &DataType) -> usize {
            match data_type {
                DataType::Struct(fields) => 1 + fields.iter().map(|field| width(field.data_type())).sum::<usize>(),
                _ => 1,
            }
        }
        let schema = store.table("s").unwrap().schema();
        let fields: usize = schema.fields().iter().map(|field| width(field.data_type())).sum();
        assert!(fields < 3000, "{fields}");
        let got = all(&store, "s").await;
        assert!(reads_as(&shown(got[1]["metadata"].clone()), &json!({"status": 500})), "{got:?}");
        assert_eq!(shown(got[0]["metadata"].clone()), Value::Object(bomb.clone()));
        store.flush().await.unwrap();
    }
}

/// Events of many different keys, each in few rows, cost what they hold.
#[tokio::test]
async fn sparse_columns_cost_what_they_hold() {
    let (_dir, store) = with_source(manual());
    let events = |range: std::ops::Range<usize>| {
        let list = |n: usize| json!([{format!("l{}", n % 300): n}, {"each": n}]);
        let event = |n: usize| json!({"id": n.to_string(), "timestamp": n, "metadata": {format!("k{:03}", n % 996): format!("a{n}"), "many": list(n), "n": [n]}});
        range.map(event).collect::<Vec<_>>()
    };
    for call in 0..10 {
        store.ingest("s", events(call * 3000..(call + 1) * 3000)).await.unwrap();
    }
    let source = store.get(store.source("s").unwrap().id).unwrap();
    let snapshot = source.snapshot().unwrap();
    let (held, bytes) = snapshot.memory.iter().fold((0, 0), |(held, bytes), b| (held + b.held(), bytes + b.bytes));
    assert!(held < 8 * bytes + (16 << 20), "{held} bytes are held for {bytes} bytes of JSON");
    for _ in 0..2 {
        let value = |key: &str, at: usize| {
            let key = path("metadata", &[key]);
            let id = datafusion::prelude::col("id").eq(datafusion::prelude::lit(at.to_string()));
            frame(&store, "s").filter(id).unwrap().select(vec![key.alias("v")]).unwrap()
        };
        assert_eq!(rows(value("k007", 7 + 996)).await, [json!({"v": "a1003"})]);
        assert_eq!(rows(value("k008", 7 + 996)).await, [json!({})]);
        let filtered = frame(&store, "s").filter(path("metadata", &["k007"]).eq(datafusion::prelude::lit("a1003")));
        assert_eq!(filtered.unwrap().count().await.unwrap(), 1);
        let id = datafusion::prelude::col("id").eq(datafusion::prelude::lit("1003"));
        let whole = rows(frame(&store, "s").filter(id).unwrap()).await.remove(0);
        assert_eq!(whole["metadata"], json!({"k007": "a1003", "many": [{"l103": 1003}, {"each": 1003}], "n": [1003]}));
        let there = frame(&store, "s").filter(path("metadata", &["k100"]).is_not_null()).unwrap();
        assert_eq!(there.count().await.unwrap(), 31);
        store.flush().await.unwrap();
    }
}

/// What came by mistake gives up its place when retention has dropped it.
#[tokio::test]
async fn columns_go_with_the_last_segment_that_has_them() {
    let options = crate::StoreOptions { max_fields: 20, ..manual() };
    let (dir, store) = with_source(options.clone());
    let junk: Map<String, Value> = (0..30).map(|key| (format!("j{key}"), json!(key))).collect();
    let mixed = json!([1, "a"]);
    store.flushed("s", vec![json!({"id": "1", "timestamp": 1, "metadata": junk, "odd": mixed})]).await;
    store
        .ingest("s", vec![json!({"id": "2", "timestamp": 2, "metadata": {"honest": 1, "j1": 5, "late": {"x": 1}}})])
        .await
        .unwrap();
    store.flush().await.unwrap();
    let id = store.source("s").unwrap().id;
    let described = store.describe(id).unwrap();
    assert!(described.overflows && described.fields >= 19, "{described:?}");
    drop(store);
    // Only the newer segment stays.
    let store = crate::Store::open(dir.path(), options.clone()).unwrap();
    let bytes = store.get(id).unwrap().segments().iter().map(|segment| segment.bytes).max().unwrap();
    store.set_retention(id, crate::Retention { max_age: None, max_bytes: Some(bytes) }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap().segments, 1);
    let described = store.describe(id).unwrap();
    assert!(described.fields < 10, "{described:?}");
    assert_eq!(shown(all(&store, "s").await[0]["metadata"].clone()), json!({"honest": 1, "j1": 5, "late": {"x": 1}}));
    // A field that was kept without a column gets one: both are read under its name.
    let late = json!({"id": "3", "timestamp": 3, "metadata": {"status": 500, "late": {"x": 2}, "honest": {"y": 3}}});
    store.ingest("s", vec![late]).await.unwrap();
    for _ in 0..2 {
        let got = all(&store, "s").await;
        assert!(
            reads_as(&shown(got[0]["metadata"].clone()), &json!({"honest": 1, "j1": 5, "late": {"x": 1}})),
            "{got:?}"
        );
        let sent = json!({"status": 500, "late": {"x": 2}, "honest": {"y": 3}});
        assert!(reads_as(&shown(got[1]["metadata"].clone()), &sent), "{got:?}");
        let x = path("metadata", &["late", "x"]).alias("x");
        let there = path("metadata", &["late", "_present"]).alias("there");
        let paths = frame(&store, "s").sort(vec![col("id").sort(true, false)]).unwrap().select(vec![x, there]).unwrap();
        assert_eq!(rows(paths).await, [json!({"x": "1", "there": true}), json!({"x": "2", "there": true})]);
        store.flush().await.unwrap();
    }
    drop(store);
    let store = crate::Store::open(dir.path(), options).unwrap();
    assert!(store.describe(id).unwrap().fields < 15);
    let first = shown(all(&store, "s").await[0]["metadata"].clone());
    assert!(reads_as(&first, &json!({"honest": 1, "j1": 5, "late": {"x": 1}})), "{first}");
}

/// One memory batch and a query that stops early: what it did not take was not made.
#[tokio::test]
async fn planning_makes_no_rows_of_memory() {
    let (_dir, store) = with_source(manual());
    let event = |n: usize| json!({"id": n.to_string(), "timestamp": n, "v": if n.is_multiple_of(2) { json!(n) } else { json!("x") }});
    store.ingest("s", (0..20_000).map(event).collect()).await.unwrap();
    let plan = frame(&store, "s").limit(0, Some(5)).unwrap().create_physical_plan().await.unwrap();
    let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("memory, partitions=") && shown.contains("fetch=5"), "{shown}");
    let narrow = frame(&store, "s").select(vec![path("v", &[])]).unwrap().create_physical_plan().await.unwrap();
    let shown = datafusion::physical_plan::displayable(narrow.as_ref()).indent(false).to_string();
    assert!(!shown.contains("id@"), "{shown}");
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

/// The event in the form in which it is stored.
fn normalised(event: &Value) -> Value {
    let mut intake = Intake::new(0, usize::MAX, tidegate_model::Audience::All);
    assert!(intake.add(event.clone()), "{:?}", intake.refused());
    stored_events(&intake.finish().body, 1).next().unwrap().unwrap().root().to_value()
}

/// The row as readers see it: what the hidden fields hold is put where it belongs.
fn shown(value: Value) -> Value {
    match value {
        Value::Object(mut map) => {
            if let Some(Value::String(text)) = map.remove("_overflow_value") {
                return serde_json::from_str(&text).unwrap();
            }
            let rest = map.remove("_overflow_fields");
            let mut map: Map<String, Value> = map.into_iter().map(|(key, value)| (key, shown(value))).collect();
            if let Some(Value::String(text)) = rest {
                let rest: Map<String, Value> = serde_json::from_str(&text).unwrap();
                map.extend(rest);
            }
            Value::Object(map)
        }
        Value::Array(items) => items.into_iter().map(shown).collect(),
        other => other,
    }
}

/// Whether a value is read as what was sent: a path of several kinds is read as text, a record may be a
/// list of one.
fn reads_as(got: &Value, sent: &Value) -> bool {
    match (got, sent) {
        (Value::String(got), Value::String(sent)) => got == sent,
        (Value::String(got), sent) => *got == crate::arrays::json_values::value_text(sent),
        (Value::Number(got), Value::Number(sent)) => got == sent || got.as_f64() == sent.as_f64(),
        (Value::Object(got), Value::Object(sent)) => {
            got.len() == sent.len()
                && got.iter().all(|(key, got)| sent.get(key).is_some_and(|sent| reads_as(got, sent)))
        }
        (Value::Array(got), Value::Array(sent)) if got.len() == sent.len() => {
            got.iter().zip(sent).all(|(got, sent)| reads_as(got, sent))
        }
        (Value::Array(got), sent) if got.len() == 1 => reads_as(&got[0], sent),
        (got, sent) => got == sent,
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
        let sent: Vec<Value> = events
            .iter()
            .map(normalised)
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let got: Vec<Vec<Value>> = runtime.block_on(async {
            let (_dir, store) = with_source(manual());
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
            prop_assert_eq!(rows.len(), sent.len());
            for (row, sent) in rows.into_iter().zip(&sent) {
                let mut row = row;
                row.as_object_mut().unwrap().remove("_overflow");
                let row = shown(row);
                prop_assert!(reads_as(&row, sent), "read {row}, sent {sent}");
            }
        }
    }
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
