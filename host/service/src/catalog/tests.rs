//! Endpoints with their versions, tokens and the deny list: what a change leaves, and who notices it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_store::{Catalog, Store, StoreError, StoreOptions};
use uuid::Uuid;

use super::{DenialTable, DeniedRecord, EndpointTable, NewVersion, TokenRecord, TokenTable};

/// A store in a new folder.
pub(super) fn opened() -> (TempDir, Arc<Store>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    (dir, store)
}

fn open(dir: &TempDir) -> Arc<Store> {
    Store::open(dir.path(), StoreOptions::default()).unwrap()
}

fn token(id: Uuid, hash: u8) -> TokenRecord {
    TokenRecord {
        id,
        hash: vec![hash; 32],
        description: "test".to_owned(),
        scopes: "query".to_owned(),
        pinned: "{}".to_owned(),
        limits: "{}".to_owned(),
        errors: None,
        created_at: 5,
        expires_at: None,
        revoked_at: None,
        last_used: None,
    }
}

#[test]
fn endpoints_keep_their_versions() {
    let (_dir, store) = opened();
    let endpoints = EndpointTable(store.catalog());
    let (a, b, edge) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let none = BTreeMap::new();
    let one = NewVersion {
        id: a,
        name: "logs.all",
        manifest: "{}",
        component: b"one",
        component_digest: "d1",
        author: "",
        sources: &none,
        alerts: &[],
    };
    let first = endpoints.put(one).unwrap();
    assert_eq!((first.version, first.author.as_str(), first.sources.len()), (1, "", 0));
    let sources = BTreeMap::from([("edge.logs".to_owned(), edge)]);
    let two = NewVersion {
        manifest: "{\"x\":1}",
        component: b"two",
        component_digest: "d2",
        author: "CI",
        sources: &sources,
        ..one
    };
    let second = endpoints.put(two).unwrap();
    assert_eq!((second.version, second.author.as_str(), &second.sources), (2, "CI", &sources));
    assert_eq!(second.created_at, first.created_at);
    assert!(matches!(endpoints.put(NewVersion { id: b, ..one }), Err(StoreError::Exists(_))));
    assert!(matches!(endpoints.put(NewVersion { name: "", ..one }), Err(StoreError::InvalidName { .. })));
    assert_eq!(endpoints.by_id(a).unwrap().unwrap(), second);
    assert_eq!(endpoints.by_id(b).unwrap(), None);
    assert_eq!(endpoints.component("d1").unwrap().unwrap(), b"one");
    assert_eq!(endpoints.component("d3").unwrap(), None);

    assert_eq!(endpoints.versions(a).unwrap(), [second.clone(), first.clone()]);
    assert_eq!(endpoints.version(a, 1).unwrap().unwrap(), first);
    assert_eq!(endpoints.version(a, 3).unwrap(), None);
    assert_eq!(endpoints.versions(b).unwrap(), []);

    assert!(endpoints.delete(a).unwrap() && !endpoints.delete(a).unwrap());
    assert_eq!(endpoints.all().unwrap(), []);
    // Its past stays on record, and a return counts on.
    assert_eq!(endpoints.version(a, 2).unwrap().unwrap(), second);
    assert_eq!(endpoints.put(one).unwrap().version, 3);
}

#[test]
fn tokens_are_revoked_and_used() {
    let (_dir, store) = opened();
    let tokens = TokenTable(store.catalog());
    let token = token(Uuid::new_v4(), 7);
    tokens.put(&token).unwrap();
    assert!(matches!(tokens.put(&token), Err(StoreError::Exists(_))));
    assert_eq!(tokens.all().unwrap(), std::slice::from_ref(&token));
    assert!(tokens.revoke(token.id).unwrap() && !tokens.revoke(token.id).unwrap());
    assert!(tokens.all().unwrap()[0].revoked_at.is_some());
    tokens.record_uses(&[(token.id, 20)]).unwrap();
    tokens.record_uses(&[(token.id, 10), (Uuid::new_v4(), 5)]).unwrap();
    assert_eq!(tokens.all().unwrap()[0].last_used, Some(20), "an older use changes nothing");
}

/// The second catalog stands for the command line in another process: it has its own connection.
#[test]
fn a_server_notices_what_the_command_line_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir);
    let beside = Catalog::open_beside(dir.path()).unwrap();

    let mut last = TokenTable(store.catalog()).generation().unwrap();
    let mut changed = |what: &str, expected: bool| {
        let now = TokenTable(store.catalog()).generation().unwrap();
        assert_eq!(TokenTable(&beside).generation().unwrap(), now);
        assert_eq!(now > last, expected, "{what}: {last} -> {now}");
        last = now;
    };
    changed("nothing", false);
    let id = Uuid::new_v4();
    TokenTable(&beside).put(&token(id, 1)).unwrap();
    changed("a token", true);
    assert_eq!(TokenTable(store.catalog()).all().unwrap(), [token(id, 1)]);
    assert!(TokenTable(&beside).put(&token(id, 1)).is_err());
    changed("a refused token", false);
    TokenTable(&beside).revoke(id).unwrap();
    changed("a revoked token", true);
    TokenTable(store.catalog()).record_uses(&[(id, 1)]).unwrap();
    changed("a use of a token", false);
    let sources = BTreeMap::new();
    let new = NewVersion {
        id,
        name: "e",
        manifest: "{}",
        component: b"c",
        component_digest: "d",
        author: "",
        sources: &sources,
        alerts: &[],
    };
    EndpointTable(store.catalog()).put(new).unwrap();
    changed("an endpoint", true);
    EndpointTable(store.catalog()).put(new).unwrap();
    changed("its next version", true);
    EndpointTable(&beside).delete(id).unwrap();
    changed("a deleted endpoint", true);
    store.catalog().set_meta("seeded", "1").unwrap();
    store.create_source("s").unwrap();
    changed("anything else", false);
}

#[test]
fn denied_tokens_are_bounded_and_end() {
    let (dir, store) = opened();
    let (denials, tokens) = (DenialTable(store.catalog()), TokenTable(store.catalog()));
    let record = |value: &str, created_at: i64, until: i64| DeniedRecord {
        id: Uuid::new_v4(),
        issuer: "https://id.example.com/".to_owned(),
        claim: "sub".to_owned(),
        value: value.to_owned(),
        until,
        reason: "left".to_owned(),
        created_at,
    };
    let before = tokens.generation().unwrap();
    let (one, two) = (record("u1", 1, 10), record("u2", 2, 20));
    assert_eq!(denials.deny(&one, 2).unwrap(), Some(one.clone()));
    assert_eq!(denials.deny(&two, 2).unwrap(), Some(two.clone()));
    assert!(tokens.generation().unwrap() > before, "servers notice it");
    // There are no more, but an entry may get another end.
    assert_eq!(denials.deny(&record("u3", 3, 30), 2).unwrap(), None);
    let longer = DeniedRecord { until: 15, reason: String::new(), ..one.clone() };
    assert_eq!(
        denials.deny(&DeniedRecord { id: Uuid::new_v4(), created_at: 3, ..longer.clone() }, 2).unwrap(),
        Some(longer.clone())
    );
    assert_eq!(denials.at(0).unwrap(), [longer.clone(), two.clone()]);
    assert_eq!(denials.at(15).unwrap(), std::slice::from_ref(&two));
    // What is over makes place.
    let third = record("u3", 16, 30);
    assert_eq!(denials.deny(&third, 2).unwrap(), Some(third.clone()));
    denials.drop_ended(20).unwrap();
    assert_eq!(denials.at(0).unwrap(), std::slice::from_ref(&third));
    assert!(denials.allow(third.id).unwrap() && !denials.allow(third.id).unwrap());
    let after = tokens.generation().unwrap();
    denials.drop_ended(100).unwrap();
    assert_eq!(tokens.generation().unwrap(), after, "nothing was deleted");
    denials.deny(&two, 2).unwrap();
    drop(store);
    assert_eq!(DenialTable(open(&dir).catalog()).at(0).unwrap(), [two]);
}
