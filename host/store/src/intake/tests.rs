//! What is refused alone, what is counted, and what a savepoint takes back.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use serde_json::json;

use super::*;
use crate::ingest::{json_tree::too_many_values, normalise::MAX_NESTING, tape_reader::stored_events};

fn nested(levels: usize) -> Value {
    (1..levels)
        .fold(json!({"a": 1}), |inner, level| if level % 2 == 0 { json!({"a": inner}) } else { json!([inner, 1]) })
}

fn events(intake: Intake) -> Vec<Value> {
    stored_events(&intake.finish().body, 1).map(|event| event.unwrap().root().to_value()).collect()
}

#[test]
fn what_cannot_be_stored_is_refused_alone() {
    let long = json!({"id": "long", "event_message": "x".repeat(200)});
    let mut intake = Intake::new(0, 100, Audience::All);
    for event in [
        json!([1]),
        json!({"id": "a"}),
        long,
        json!({"id": "deep", "a": nested(MAX_NESTING)}),
        json!({"id": "b"}),
        Value::Null,
        json!({"a": {"$serde_json::private::RawValue": "x"}}),
    ] {
        intake.add(event);
    }
    let refused: Vec<(usize, &str)> =
        intake.refused().iter().map(|refused| (refused.index, refused.reason.as_str())).collect();
    assert_eq!(refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 2, 3, 5, 6]);
    assert_eq!(refused[0].1, "an event must be a JSON object, not an array");
    assert!(refused[1].1.contains("100 are allowed"), "{refused:?}");
    assert!(refused[2].1.contains("100 levels"), "{refused:?}");
    assert!(refused[4].1.contains("is reserved"), "{refused:?}");
    assert_eq!((intake.events(), intake.rows()), (7, 2));
    assert_eq!(events(intake), [json!({"id": "a", "timestamp": 0}), json!({"id": "b", "timestamp": 0})]);
    assert_eq!(Intake::new(0, 100, Audience::All).finish().body, b"[]");
}

#[test]
fn an_event_of_too_many_values_is_refused_by_text_and_by_tree() {
    // 400 KB of text that would be a tree of 18 MB.
    let event = json!({"a": vec![[0]; 100_000]});
    let mut intake = Intake::new(0, 1 << 20, Audience::All);
    assert!(!intake.add_text(&event.to_string()));
    assert!(!intake.add(event));
    assert!(intake.refused().iter().all(|refused| refused.reason == too_many_values()));
    assert!(intake.held() < 10_000, "{}", intake.held());
}

#[test]
fn odd_times_are_counted_with_the_events_that_are_stored() {
    const DAY: i64 = 24 * 3600 * 1_000_000;
    let now = 1_763_633_702_123_456;
    let mut intake = Intake::new(now, 200, Audience::All);
    let mark = intake.mark();
    for event in [
        json!({"timestamp": "soon"}),
        json!({"timestamp": -1_763_633_702}),
        json!({"@timestamp": "soon"}),
        json!({"timestamp": "soon", "event_message": "x".repeat(300)}),
        json!({"timestamp": null, "time": "soon", "date": "soon"}),
        json!({"timestamp": now + DAY}),
        json!({"timestamp": now + DAY + 1}),
        json!({"date": "9999-12-31T00:00:00Z"}),
        json!({"timestamp": "1970-12-31T23:59:59Z"}),
        json!({"timestamp": 0}),
        json!({"timestamp": "1971-01-01T00:00:00Z"}),
        json!({"timestamp": "1969-12-31T23:59:59Z"}),
    ] {
        intake.add(event);
    }
    let told = TimeCounts { unread: 3, ahead: 2, early: 2 };
    assert_eq!((intake.rows(), intake.counts.times), (11, told));
    intake.take_back(mark);
    assert_eq!(intake.finish().times, TimeCounts::default());
}

#[test]
fn an_intake_can_be_taken_back() {
    let mut intake = Intake::new(0, 100, Audience::All);
    intake.add(json!({"id": "a"}));
    let mark = intake.mark();
    intake.add(json!({"id": "b"}));
    intake.add(json!(5));
    intake.take_back(mark);
    intake.add(json!({"id": "c"}));
    intake.refuse("bad".to_owned());
    assert_eq!(intake.refused(), [RefusedEvent { index: 2, reason: "bad".to_owned(), is_conflict: false }]);
    assert_eq!(events(intake), [json!({"id": "a", "timestamp": 0}), json!({"id": "c", "timestamp": 0})]);
}

#[test]
fn events_that_are_stored_under_their_names_are_taken_out() {
    let key = |name: u8, body: u8| RequestKey { sender: [0; 8], name: [name; 24], body: [body; 32] };
    let mut intake = Intake::new(0, 100, Audience::All);
    for (id, named) in [
        ("a", Some(key(1, 1))),
        ("b", None),
        ("c", Some(key(2, 2))),
        ("d", Some(key(3, 3))),
        // Twice in one call, and once more with another body.
        ("c", Some(key(2, 2))),
        ("c", Some(key(2, 9))),
    ] {
        assert!(intake.add(json!({"id": id})));
        named.into_iter().for_each(|key| intake.name_last(key));
    }
    let mark = intake.mark();
    intake.add(json!({"id": "e"}));
    intake.name_last(key(4, 4));
    intake.take_back(mark);
    intake.refuse("bad".to_owned());
    let stored = [key(1, 1), key(3, 8), key(4, 4)];
    intake.resolve_names(stored.iter().map(|stored| (stored.stored_name(), stored.body)).collect());
    let refused: Vec<_> = intake.refused().iter().map(|refused| (refused.index, refused.is_conflict)).collect();
    assert_eq!((refused.as_slice(), intake.rows()), (&[(3, true), (5, true), (6, false)][..], 2));
    let call = intake.clone().finish();
    assert_eq!(call.named, [key(2, 2)]);
    assert_eq!(events(intake), [json!({"id": "b", "timestamp": 0}), json!({"id": "c", "timestamp": 0})]);
}

#[test]
fn what_is_finer_than_a_microsecond_orders_equal_times() {
    const AT: i64 = 1_763_633_702_123_456;
    let key = |name: u8| RequestKey { sender: [0; 8], name: [name; 24], body: [name; 32] };
    let intake = |ids: &str, nanos: fn(u8) -> i64| {
        let mut intake = Intake::new(0, 200, Audience::All);
        for id in ids.bytes() {
            // `x` and `y` have other times; `0` has no finer one.
            let time = match id {
                b'x' => json!(AT + 5),
                b'y' => json!(AT - 5),
                b'0' => json!(AT),
                id => json!(AT * 1_000 + nanos(id)),
            };
            assert!(intake.add(json!({"id": char::from(id).to_string(), "timestamp": time})));
            intake.name_last(key(id));
        }
        intake
    };
    let ids = |intake: Intake| -> String {
        let text = |event: Value| event["id"].as_str().unwrap().to_owned();
        events(intake).into_iter().map(text).collect()
    };
    let same: fn(u8) -> i64 = |id| i64::from(id - b'a') + 1;
    for (sent, stored) in [
        ("abc", "abc"),
        ("cba", "abc"),
        ("0ba", "0ab"),
        ("ba0", "0ab"),
        // `a` twice keeps its own order, and other times keep their positions.
        ("xcxb0aya", "x0xaabyc"),
        ("hgfedcba", "abcdefgh"),
    ] {
        assert_eq!(ids(intake(sent, same)), stored, "{sent}");
    }
    assert_eq!(ids(intake("cab", |_| 7)), "cab");

    // An event that is stored already is taken out where it is then; what was taken back is not put anywhere.
    let mut some = intake("dcb", same);
    let mark = some.mark();
    assert!(some.add(json!({"id": "a", "timestamp": AT * 1_000})));
    some.take_back(mark);
    some.resolve_names([(key(b'c').stored_name(), [b'c'; 32])].into());
    assert_eq!(some.clone().finish().named, [key(b'b'), key(b'd')]);
    assert_eq!(ids(some), "bd");
}
