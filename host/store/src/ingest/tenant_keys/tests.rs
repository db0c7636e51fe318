//! What is set, what stays, what is refused, and that hostile events cost no more than others.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_model::{Audience, SenderPolicy, TenantValue};

use crate::{
    ingest::tape_reader::{read_tape, stored_events},
    intake::Intake,
};

fn policy(values: &[(&str, &str, &str)]) -> SenderPolicy {
    let own = |(key, path, value): &(&str, &str, &str)| TenantValue {
        key: (*key).to_owned(),
        path: path.parse().unwrap(),
        value: (*value).to_owned(),
    };
    SenderPolicy { values: values.iter().map(own).collect() }
}

fn intake(values: &[(&str, &str, &str)], max_bytes: usize) -> Intake {
    Intake::new(7, max_bytes, Audience::All).held_to(Some(policy(values)))
}

fn stored(intake: Intake) -> Vec<Value> {
    let body = intake.finish().body;
    stored_events(&body, 1).map(|event| event.unwrap().root().to_value()).collect()
}

/// The event as it is stored, without its id and time, or why it is refused. As a tree and as text it is the same.
fn held(text: &str, values: &[(&str, &str, &str)]) -> Result<Value, String> {
    let mut intake = intake(values, 1 << 20);
    intake.add_text(text);
    if let Ok(tree) = serde_json::from_str(text) {
        intake.add(tree);
    }
    let reasons: Vec<String> = intake.refused().iter().map(|refused| refused.reason.clone()).collect();
    let mut events = stored(intake);
    for event in &mut events {
        let fields = event.as_object_mut().unwrap();
        fields.remove("id");
        fields.remove("timestamp");
    }
    assert_eq!(events.len() + reasons.len(), 2, "{text}: {events:?} {reasons:?}");
    match events.as_slice() {
        [event, other] => {
            assert_eq!(event, other);
            Ok(event.clone())
        }
        _ => {
            assert_eq!(reasons[0], reasons[1]);
            Err(reasons[0].clone())
        }
    }
}

fn of_abc(text: &str, path: &str) -> Result<Value, String> {
    held(text, &[("project", path, "abc")])
}

#[test]
fn what_is_missing_is_set() {
    for (event, path, expected) in [
        ("{}", "project", json!({"project": "abc"})),
        (r#"{"project": null}"#, "project", json!({"project": "abc"})),
        (r#"{"project": [], "a": 1}"#, "project", json!({"project": "abc", "a": 1})),
        (r#"{"project": {"x": [null]}}"#, "project", json!({"project": "abc"})),
        ("{}", "m.n.p", json!({"m": {"n": {"p": "abc"}}})),
        (r#"{"m": null}"#, "m.p", json!({"m": {"p": "abc"}})),
        (r#"{"m": {}}"#, "m.p", json!({"m": {"p": "abc"}})),
        (r#"{"m": []}"#, "m.p", json!({"m": {"p": "abc"}})),
        (r#"{"m": [{}]}"#, "m.p", json!({"m": {"p": "abc"}})),
        (r#"{"m": {"a": 1, "p": null}}"#, "m.p", json!({"m": {"a": 1, "p": "abc"}})),
        (
            r#"{"m": {"a": {"b": [1, 2]}}, "z": [{"y": 1}, {"x": 2}]}"#,
            "m.p",
            json!({"m": {"a": {"b": [1, 2]}, "p": "abc"}, "z": [{"y": 1}, {"x": 2}]}),
        ),
        (r#"{"m": [{"a": 1}]}"#, "m.p", json!({"m": {"a": 1, "p": "abc"}})),
        (
            r#"{"m": [{"a": 1}, {"p": "abc"}, {"p": null, "b": 2}]}"#,
            "m.p",
            json!({"m": [{"a": 1, "p": "abc"}, {"p": "abc"}, {"b": 2, "p": "abc"}]}),
        ),
        (
            r#"{"m": [{"n": [{"a": 1}, {"b": 2}]}, {"c": 3}]}"#,
            "m.n.p",
            json!({"m": [{"n": [{"a": 1, "p": "abc"}, {"b": 2, "p": "abc"}]}, {"c": 3, "n": {"p": "abc"}}]}),
        ),
        // Of repeated keys the last counts, in whatever spelling; a name with a dot is one name.
        (r#"{"m": {"p": "x"}, "m": {"a": "\u0041\n"}}"#, "m.p", json!({"m": {"a": "A\n", "p": "abc"}})),
        (r#"{"p": "x", "\u0070": null}"#, "p", json!({"p": "abc"})),
        (r#"{"m.p": "x"}"#, "m.p", json!({"m.p": "x", "m": {"p": "abc"}})),
        (r#"{"P": "x"}"#, "p", json!({"P": "x", "p": "abc"})),
        (r#"{"message": "hello"}"#, "message", json!({"event_message": "hello", "message": "abc"})),
    ] {
        assert_eq!(of_abc(event, path), Ok(expected), "{event}");
    }
}

#[test]
fn what_is_there_and_the_same_stays() {
    for (event, value) in [
        (r#"{"m": {"p": "abc"}}"#, "abc"),
        (r#"{"m": {"p": "\u0061bc"}}"#, "abc"),
        (r#"{"m": [{"p": "abc"}, {"p": "abc"}]}"#, "abc"),
        (r#"{"m": {"p": 42}}"#, "42"),
        (r#"{"m": {"p": -7}}"#, "-7"),
        (r#"{"m": [{"p": true}, {"p": "true"}]}"#, "true"),
    ] {
        let sent: Value = serde_json::from_str(event).unwrap();
        assert_eq!(held(event, &[("project", "m.p", value)]), Ok(sent), "{event}");
    }
}

#[test]
fn another_value_is_refused_and_not_told() {
    for value in [
        r#""secret""#,
        r#""""#,
        r#""ABC""#,
        r#""abc ""#,
        r#""a\u0000bc""#,
        "1",
        "false",
        r#"["abc"]"#,
        r#"["abc", "abc"]"#,
        r#"{"abc": 1}"#,
        "0.5",
        "1e5",
        r#"[{"p": "abc"}]"#,
    ] {
        let refused = of_abc(&format!(r#"{{"m": {{"p": {value}}}}}"#), "m.p").unwrap_err();
        assert_eq!(
            refused, "the token sends logs of project 'abc' only; the event has another value at m.p",
            "{value}"
        );
        let several = of_abc(&format!(r#"{{"m": [{{"p": "abc"}}, {{"p": {value}}}, {{"q": 1}}]}}"#), "m.p");
        assert_eq!(several.unwrap_err(), refused, "{value}");
        let twice = of_abc(&format!(r#"{{"m": {{"p": "abc", "p": {value}}}}}"#), "m.p");
        assert_eq!(twice.unwrap_err(), refused, "{value}");
    }
    for (number, value) in [("42.0", "42"), ("42", "042"), ("-0", "-0"), ("1.5", "1.5"), ("42", "+42")] {
        assert!(held(&format!(r#"{{"p": {number}}}"#), &[("project", "p", value)]).is_err(), "{number} {value}");
    }
}

#[test]
fn what_is_no_record_on_the_way_is_refused() {
    for at in [
        r#""secret""#,
        "1",
        "true",
        r#"["secret"]"#,
        r#"[{"a": 1}, "secret"]"#,
        r#"[[{"a": 1}]]"#,
        r#"[{"a": 1}, [1]]"#,
    ] {
        let refused = of_abc(&format!(r#"{{"m": {{"n": {at}}}}}"#), "m.n.p").unwrap_err();
        let told = "the token sends logs of project 'abc' only; it cannot be set at m.n.p, because the event has no record at m.n";
        assert_eq!(refused, told, "{at}");
    }
}

#[test]
fn several_keys_are_set_one_after_the_other() {
    let both = [("project", "m.p", "abc"), ("team", "m.t", "x")];
    assert_eq!(held("{}", &both), Ok(json!({"m": {"p": "abc", "t": "x"}})));
    assert_eq!(
        held(r#"{"m": [{"t": "x"}, {"p": "abc"}]}"#, &both),
        Ok(json!({"m": [{"t": "x", "p": "abc"}, {"p": "abc", "t": "x"}]}))
    );
    assert!(
        held(r#"{"m": {"t": "y"}}"#, &both).unwrap_err().contains("team 'x' only; the event has another value at m.t")
    );
    // One path cannot have two values, nor a record be a text.
    assert!(held("{}", &[("project", "p", "abc"), ("team", "p", "x")]).is_err());
    assert!(held("{}", &[("project", "p", "abc"), ("team", "p.t", "x")]).is_err());
    assert!(held("{}", &[("project", "p.t", "abc"), ("team", "p", "x")]).is_err());
}

#[test]
fn the_fields_of_the_store_are_no_way_around() {
    // Ids and times are made up where there are none, and the store keeps its own record of what has no place.
    for path in ["id", "timestamp", "_overflow", "_overflow.p"] {
        assert!(of_abc("{}", path).is_err(), "{path}");
    }
    assert!(held(r#"{"id": "abc"}"#, &[("project", "id", "abc")]).is_ok());
    assert_eq!(of_abc("{}", "event_message"), Ok(json!({"event_message": "abc"})));
    assert!(of_abc(r#"{"message": "x"}"#, "event_message").is_err());
}

#[test]
fn a_refused_event_costs_only_itself() {
    let mut intake = intake(&[("project", "p", "abc")], 1000);
    assert!(intake.add_leading(r#"{"p": "x"}, 1"#, &[]).is_none());
    assert_eq!(intake.add_leading(r#"{"q": 1}, 1"#, &[]), Some(8));
    for event in [json!({"p": "x"}), json!({"p": "abc"}), json!(5), json!({"p": 1})] {
        intake.add(event);
    }
    let refused: Vec<usize> = intake.refused().iter().map(|refused| refused.index).collect();
    assert_eq!((refused.as_slice(), intake.rows()), (&[1, 3, 4][..], 2));
    assert!(stored(intake).iter().all(|event| event["p"] == "abc"));
}

#[test]
fn a_value_that_makes_an_event_too_long_is_counted_before_it_is_set() {
    let names: Vec<String> = (0..16).map(|level| format!("{level:0128}")).collect();
    let path = names.join(".");
    let long = "v".repeat(1000);
    // 30,000 records that lack a path of 2 KiB: 90 MB if it were set.
    let event = json!({names[0].clone(): vec![json!({"a": 1}); 30_000]}).to_string();
    let mut intake = intake(&[("project", path.as_str(), long.as_str())], 1 << 20);
    assert!(!intake.add_text(&event));
    assert!(intake.refused()[0].reason.contains("are allowed"), "{}", intake.refused()[0].reason);
    assert!(intake.held() < 2 << 20, "{}", intake.held());
    let fits = intake.max_event_bytes();
    assert!(intake.add_text("{}") && stored(intake).len() == 1 && fits == 1 << 20);
}

#[test]
fn as_many_records_as_an_event_may_have_are_each_visited_once() {
    // Were an insertion to move what follows it, this would take minutes.
    let event = json!({"m": vec![json!({"a": 1}); 49_000]}).to_string();
    let mut intake = intake(&[("project", "m.p", "abc")], 16 << 20);
    for _ in 0..3 {
        assert!(intake.add_text(&event), "{:?}", intake.refused());
    }
    for event in stored(intake) {
        let records = event["m"].as_array().unwrap();
        assert!(records.len() == 49_000 && records.iter().all(|record| record == &json!({"a": 1, "p": "abc"})));
    }
}

#[test]
fn deep_events_are_held_like_others() {
    let nested = |levels: usize| format!("{}1{}", r#"{"m":"#.repeat(levels), "}".repeat(levels));
    let path = vec!["m"; 16].join(".");
    let refused = of_abc(&nested(99), &path).unwrap_err();
    assert!(refused.contains("another value at m.m"), "{refused}");
    assert!(of_abc(&nested(99), "p").is_ok());
    assert!(of_abc(&nested(15), &path).unwrap_err().contains("no record at m.m"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..100).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c\\n\"é]{0,3}".prop_map(Value::from),
        Just(Value::from("abc")),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[mnp\\n]{1}", inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The texts at a path of a stored event, or nothing where the path is cut off by something else.
fn at(value: &Value, names: &[&str], found: &mut Vec<Option<String>>) {
    match (value, names.split_first()) {
        (Value::Object(fields), Some((name, rest))) => match fields.get(*name) {
            Some(field) => at(field, rest, found),
            None => found.push(None),
        },
        // A list within a list is no record, an empty one neither.
        (Value::Array(items), Some(_)) => items.iter().for_each(|item| match item {
            Value::Array(_) => found.push(None),
            item => at(item, names, found),
        }),
        (Value::String(text), None) => found.push(Some(text.clone())),
        (Value::Number(number), None) => found.push(Some(number.to_string())),
        (Value::Bool(flag), None) => found.push(Some(flag.to_string())),
        _ => found.push(None),
    }
}

/// The event with all that stands at the path left out, as far as records lead there.
fn without(value: &Value, names: &[&str]) -> Value {
    match (value, names.split_first()) {
        (Value::Object(fields), Some((name, rest))) => {
            let kept = fields.iter().filter_map(|(key, field)| match key == name {
                true if rest.is_empty() => None,
                true => Some((key.clone(), without(field, rest))),
                false => Some((key.clone(), field.clone())),
            });
            let kept: serde_json::Map<String, Value> = kept.filter(|(_, field)| field != &json!({})).collect();
            Value::Object(kept)
        }
        (Value::Array(items), Some(_)) => items.iter().map(|item| without(item, names)).collect(),
        (other, _) => other.clone(),
    }
}

proptest! {
    /// What is stored is the tenant's at each place to which the path leads, and is otherwise what is stored without a
    /// policy. What is refused was another's, or had something on the way.
    #[test]
    fn what_is_stored_is_the_tenants(event in any_json(), depth in 1_usize..4) {
        let names = &["m", "n", "p"][3 - depth..];
        let event = json!({names[0]: event, "id": "i", "timestamp": 5});
        let path = names.join(".");
        let free = {
            let mut free = Intake::new(7, 1 << 20, Audience::All);
            prop_assert!(free.add(event.clone()));
            stored(free).remove(0)
        };
        let mut intake = intake(&[("project", path.as_str(), "abc")], 1 << 20);
        let mut before = Vec::new();
        at(&free, names, &mut before);
        if intake.add(event) {
            let bytes = intake.finish().body;
            let text = std::str::from_utf8(&bytes).unwrap();
            let own = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap();
            let own = read_tape(own).unwrap().root().to_value();
            let mut after = Vec::new();
            at(&own, names, &mut after);
            prop_assert!(!after.is_empty() && after.iter().all(|value| value.as_deref() == Some("abc")), "{own}");
            prop_assert_eq!(without(&own, names), without(&free, names));
        } else {
            let is_own = !before.is_empty() && before.iter().all(|value| value.as_deref() == Some("abc"));
            prop_assert!(!is_own, "{free} is refused: {:?}", intake.refused());
        }
    }
}
