//! Alerts in the catalog: what a new version, a run and an attempt to send change, and what stays bounded.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use tidegate_store::Catalog;
use uuid::Uuid;

use super::tests::opened;
use super::{
    AlertMessageTable, AlertState, AlertTable, EndpointTable, NewAlert, NewVersion, Result, RunOutcome, is_due,
};

fn new(name: &str, definition: &str) -> NewAlert {
    let secret = format!("secret of {name} {definition}");
    let (name, definition, paused) = (name.to_owned(), definition.to_owned(), definition == "paused");
    NewAlert { name, definition, paused, secret, former: None }
}

fn put(catalog: &Catalog, id: Uuid, alerts: &[NewAlert]) {
    saved(id, alerts, |version| EndpointTable(catalog).put(version).map(drop));
}

fn put_forgetting(catalog: &Catalog, id: Uuid, alerts: &[NewAlert], name: &str) {
    saved(id, alerts, |version| EndpointTable(catalog).put_forgetting(version, name).map(drop));
}

fn saved(id: Uuid, alerts: &[NewAlert], put: impl FnOnce(NewVersion<'_>) -> Result<()>) {
    let name = id.to_string();
    let sources = BTreeMap::new();
    let version = NewVersion {
        id,
        name: &format!("e{}", &name[..8]),
        manifest: "{}",
        component: b"c",
        component_digest: "d",
        author: "",
        sources: &sources,
        alerts,
    };
    put(version).unwrap();
}

fn outcome(now: i64, occurrence: Option<Uuid>, message: Option<&'static str>) -> RunOutcome {
    let state = AlertState {
        occurrence: occurrence.map(|id| (id, now)),
        announced: occurrence.is_some(),
        last_fired: occurrence.map(|_| now),
    };
    let message = message.map(|state| (state, format!("body {now}")));
    RunOutcome { next_run: now + 100, state, run: now.to_string(), message, now }
}

#[test]
fn an_alert_keeps_its_state_and_secret_through_versions() {
    let (_dir, store) = opened();
    let catalog = store.catalog();
    let (alerts, messages) = (AlertTable(catalog), AlertMessageTable(catalog));
    let (id, other, far) = (Uuid::new_v4(), Uuid::new_v4(), i64::MAX - 1);
    put(catalog, id, &[new("a", "1"), new("b", "1"), new("p", "paused")]);
    put(catalog, other, &[new("a", "1")]);
    assert_eq!(alerts.count().unwrap(), (4, 0, 0));
    assert_eq!(alerts.count_beside(other).unwrap(), 3);
    assert_eq!(alerts.due(far, 10).unwrap().len(), 3, "one is paused");
    let next = alerts.one(id, "a").unwrap().unwrap().next_run.unwrap();
    assert_eq!(alerts.due(next - 1_000_000, 10).unwrap(), []);
    assert_eq!(alerts.due(0, 10).unwrap().len(), 3, "written while the clock was far ahead");
    assert!(is_due(next, next) && is_due(next, 0) && !is_due(next, next - 1) && !is_due(i64::MAX, 0));
    let a = alerts.one(id, "a").unwrap().unwrap();
    let occurrence = Uuid::new_v4();
    assert!(alerts.finish_run(&a, &outcome(50, Some(occurrence), Some("firing"))).unwrap());
    let fired = alerts.one(id, "a").unwrap().unwrap();
    assert_eq!((fired.state.occurrence, fired.next_run), (Some((occurrence, 50)), Some(150)));
    assert_eq!(alerts.count().unwrap(), (4, 1, 1));

    // The same definition: nothing changes. Another one: it is run again, and what was asked of the old one does not count.
    put(catalog, id, &[new("a", "1"), new("b", "2")]);
    assert_eq!(alerts.one(id, "a").unwrap().unwrap(), fired);
    let secret = alerts.secret(id, "b").unwrap().unwrap();
    assert_eq!(secret, "secret of b 1");
    assert_eq!(alerts.one(id, "p").unwrap(), None);
    put(catalog, id, &[new("a", "2"), new("b", "2")]);
    let changed = alerts.one(id, "a").unwrap().unwrap();
    assert!(changed.next_run > fired.next_run && changed.state == fired.state);
    assert!(!alerts.finish_run(&fired, &outcome(60, None, None)).unwrap());
    assert_eq!(alerts.one(id, "a").unwrap().unwrap(), changed);

    // A version without it ends it; its secret is there if it comes back, until it is forgotten.
    assert!(alerts.set_secret(id, "a", "mine").unwrap());
    put(catalog, id, &[new("b", "2")]);
    assert_eq!((alerts.one(id, "a").unwrap(), alerts.secret(id, "a").unwrap()), (None, None));
    assert_eq!(messages.due(far, None, 10).unwrap(), []);
    assert!(!alerts.set_secret(id, "a", "x").unwrap());
    put(catalog, id, &[new("a", "3"), new("b", "2")]);
    assert_eq!(alerts.one(id, "a").unwrap().unwrap().state, AlertState::default());
    assert_eq!(alerts.secret(id, "a").unwrap().unwrap(), "mine");
    put_forgetting(catalog, id, &[new("b", "2")], "a");
    put_forgetting(catalog, id, &[new("a", "3"), new("b", "2")], "b");
    assert_eq!(alerts.secret(id, "a").unwrap().unwrap(), "secret of a 3");
    assert_eq!(alerts.secret(id, "b").unwrap().unwrap(), "secret of b 1", "it is there: nothing is forgotten");
    // One that is made anew has a secret of its own.
    put(catalog, id, &[new("b", "2")]);
    put_forgetting(catalog, id, &[new("a", "4"), new("b", "2")], "a");
    assert_eq!(alerts.secret(id, "a").unwrap().unwrap(), "secret of a 4");

    assert!(EndpointTable(catalog).delete(id).unwrap());
    assert_eq!(alerts.of(id).unwrap(), []);
    assert_eq!(alerts.count().unwrap(), (1, 0, 0));
}

#[test]
fn a_renamed_alert_has_its_secret_with_the_version_that_renames_it() {
    let (_dir, store) = opened();
    let catalog = store.catalog();
    let alerts = AlertTable(catalog);
    let id = Uuid::new_v4();
    let renamed = |name: &str, former: &str| NewAlert { former: Some(former.to_owned()), ..new(name, "1") };
    let secret = |name: &str| alerts.secret(id, name).unwrap().unwrap();
    put(catalog, id, &[new("a", "1"), new("b", "1")]);
    put(catalog, id, &[renamed("c", "a"), new("b", "1")]);
    assert_eq!((secret("c"), secret("b")), ("secret of a 1".to_owned(), "secret of b 1".to_owned()));
    // Under a name that another alert had before, whose secret is still known.
    put(catalog, id, &[new("c", "1")]);
    put(catalog, id, &[renamed("b", "c")]);
    assert_eq!(secret("b"), "secret of a 1");
    // A former name that is not known.
    put(catalog, id, &[renamed("d", "nobody")]);
    assert_eq!(secret("d"), "secret of d 1");
}

#[test]
fn messages_are_sent_in_order_and_bounded_as_runs_are() {
    let (_dir, store) = opened();
    let catalog = store.catalog();
    let (alerts, messages) = (AlertTable(catalog), AlertMessageTable(catalog));
    let id = Uuid::new_v4();
    put(catalog, id, &[new("a", "1"), new("b", "1")]);
    let a = alerts.one(id, "a").unwrap().unwrap();
    let b = alerts.one(id, "b").unwrap().unwrap();
    for now in 1..=70 {
        assert!(alerts.finish_run(&a, &outcome(now, None, Some("resolved"))).unwrap());
    }
    alerts.finish_run(&b, &outcome(5, None, Some("firing"))).unwrap();
    let runs = alerts.runs(id, "a").unwrap();
    assert_eq!((runs.len(), runs[0].as_str(), runs[49].as_str()), (50, "70", "21"));
    assert_eq!(alerts.count().unwrap().2, 21);
    let due = messages.due(100, None, 10).unwrap();
    let told: Vec<_> = due.iter().map(|message| (message.name.as_str(), message.body.as_str())).collect();
    assert_eq!(told, [("b", "body 5"), ("a", "body 51")], "the oldest of each");
    assert_eq!(due[1].secret, "secret of a 1");
    let behind = messages.due(100, Some((due[0].next_try, due[0].id)), 10).unwrap();
    assert_eq!(behind, due[1..], "from behind the first on");
    messages.finish_attempt(&due[1], "{}", Some(200)).unwrap();
    assert_eq!(messages.due(100, None, 10).unwrap().len(), 1, "the others wait for it");
    let again = messages.due(200, None, 10).unwrap();
    assert_eq!((again[1].body.as_str(), again[1].attempts), ("body 51", 1));
    messages.finish_attempt(&again[1], "{\"ok\":true}", None).unwrap();
    assert_eq!(messages.due(200, None, 10).unwrap()[1].body, "body 52");
    assert_eq!(alerts.one(id, "a").unwrap().unwrap().last_delivery.unwrap(), "{\"ok\":true}");
}

#[test]
fn a_message_waits_no_longer_than_its_attempts_say_after_the_clock_went_back() {
    let (_dir, store) = opened();
    let catalog = store.catalog();
    let (alerts, messages) = (AlertTable(catalog), AlertMessageTable(catalog));
    let id = Uuid::new_v4();
    let names = ["new", "tried", "often"];
    put(catalog, id, &names.map(|name| new(name, "1")));
    let hour = 3_600_000_000;
    for name in names {
        let alert = alerts.one(id, name).unwrap().unwrap();
        assert!(alerts.finish_run(&alert, &outcome(2 * hour, None, Some("firing"))).unwrap());
    }
    let all = messages.due(2 * hour, None, 10).unwrap();
    let of = |name: &str| all.iter().find(|message| message.name == name).unwrap();
    messages.finish_attempt(of("tried"), "{}", Some(2 * hour + 10)).unwrap();
    messages.finish_attempt(of("often"), "{}", Some(hour + 20)).unwrap();
    messages.finish_attempt(of("often"), "{}", Some(hour + 20)).unwrap();
    assert_eq!(messages.due(hour, None, 10).unwrap(), [], "they wait for the hour that the clock was ahead");
    let longest = |attempts: u32| i64::from(attempts) * 30;
    assert_eq!(messages.hasten(hour, longest).unwrap(), 2);
    let due = |now: i64| -> Vec<(String, i64, u32)> {
        let due = messages.due(now, None, 10).unwrap();
        due.into_iter().map(|message| (message.name, message.next_try, message.attempts)).collect()
    };
    let [first, tried, often] = [("new", 0, 0), ("tried", 30, 1), ("often", 20, 1)]
        .map(|(name, wait, attempts)| (name.to_owned(), hour + wait, attempts));
    assert_eq!(due(hour), std::slice::from_ref(&first));
    assert_eq!(due(hour + 30), [first, often, tried]);
    assert_eq!(messages.hasten(hour, longest).unwrap(), 0);
}
