//! The catalog: endpoints with their versions, tokens, settings, and the migration of its schema.

use std::{collections::BTreeMap, path::Path};

use rusqlite::Connection;
use serde_json::json;
use uuid::Uuid;

use super::{all, manual, open, opened};
use crate::{Catalog, DeniedRecord, NewVersion, Store, StoreError, TokenRecord, catalog::database, data_folder::paths};

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
    let (_dir, store) = opened(manual());
    let catalog = store.catalog();
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
    let first = catalog.put_endpoint(one).unwrap();
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
    let second = catalog.put_endpoint(two).unwrap();
    assert_eq!((second.version, second.author.as_str(), &second.sources), (2, "CI", &sources));
    assert_eq!(second.created_at, first.created_at);
    assert!(matches!(catalog.put_endpoint(NewVersion { id: b, ..one }), Err(StoreError::Exists(_))));
    assert!(matches!(catalog.put_endpoint(NewVersion { name: "", ..one }), Err(StoreError::InvalidName { .. })));
    assert_eq!(catalog.endpoint_by_name("logs.all").unwrap().unwrap(), second);
    assert_eq!(catalog.endpoint_by_id(a).unwrap().unwrap(), second);
    assert_eq!(catalog.endpoint_by_id(b).unwrap(), None);
    assert_eq!(catalog.component("d1").unwrap().unwrap(), b"one");
    assert_eq!(catalog.component("d3").unwrap(), None);

    assert_eq!(catalog.endpoint_versions(a).unwrap(), [second.clone(), first.clone()]);
    assert_eq!(catalog.endpoint_version(a, 1).unwrap().unwrap(), first);
    assert_eq!(catalog.endpoint_version(a, 3).unwrap(), None);
    assert_eq!(catalog.endpoint_versions(b).unwrap(), []);

    assert!(catalog.delete_endpoint(a).unwrap() && !catalog.delete_endpoint(a).unwrap());
    assert_eq!(catalog.endpoints().unwrap(), []);
    // Its past stays on record, and a return counts on.
    assert_eq!(catalog.endpoint_version(a, 2).unwrap().unwrap(), second);
    assert_eq!(catalog.put_endpoint(one).unwrap().version, 3);
}

#[test]
fn tokens_and_settings() {
    let (_dir, store) = opened(manual());
    let catalog = store.catalog();
    let token = token(Uuid::new_v4(), 7);
    catalog.put_token(&token).unwrap();
    assert!(matches!(catalog.put_token(&token), Err(StoreError::Exists(_))));
    assert_eq!(catalog.token_by_hash(&[7; 32]).unwrap().unwrap(), token);
    assert_eq!(catalog.token_by_hash(&[8; 32]).unwrap(), None);
    assert!(catalog.revoke_token(token.id).unwrap() && !catalog.revoke_token(token.id).unwrap());
    assert!(catalog.tokens().unwrap()[0].revoked_at.is_some());
    catalog.record_token_uses(&[(token.id, 20)]).unwrap();
    catalog.record_token_uses(&[(token.id, 10), (Uuid::new_v4(), 5)]).unwrap();
    assert_eq!(catalog.tokens().unwrap()[0].last_used, Some(20), "an older use changes nothing");

    assert_eq!(catalog.meta("k").unwrap(), None);
    catalog.set_meta("k", "1").unwrap();
    catalog.set_meta("k", "2").unwrap();
    assert_eq!(catalog.meta("k").unwrap().unwrap(), "2");
}

/// The second catalog stands for the command line in another process: it has its own connection.
#[test]
fn a_server_notices_what_the_command_line_changes() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Catalog::open_beside(dir.path()), Err(StoreError::NoCatalog(_))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is created");
    let store = open(&dir);
    let beside = Catalog::open_beside(dir.path()).unwrap();

    let mut last = store.catalog().tokens_generation().unwrap();
    let mut changed = |what: &str, expected: bool| {
        let now = store.catalog().tokens_generation().unwrap();
        assert_eq!(beside.tokens_generation().unwrap(), now);
        assert_eq!(now > last, expected, "{what}: {last} -> {now}");
        last = now;
    };
    changed("nothing", false);
    let id = Uuid::new_v4();
    beside.put_token(&token(id, 1)).unwrap();
    changed("a token", true);
    assert_eq!(store.catalog().tokens().unwrap(), [token(id, 1)]);
    assert!(beside.put_token(&token(id, 1)).is_err());
    changed("a refused token", false);
    beside.revoke_token(id).unwrap();
    changed("a revoked token", true);
    store.catalog().record_token_uses(&[(id, 1)]).unwrap();
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
    store.catalog().put_endpoint(new).unwrap();
    changed("an endpoint", true);
    store.catalog().put_endpoint(new).unwrap();
    changed("its next version", true);
    beside.delete_endpoint(id).unwrap();
    changed("a deleted endpoint", true);
    store.catalog().set_meta("seeded", "1").unwrap();
    store.create_source("s").unwrap();
    changed("anything else", false);
}

const EVENTS: &str = r#"[{"id":"old","timestamp":1700000000000000,"event_message":"kept"}]"#;

/// A folder as version 1 of the schema left it, with a row in every table.
fn old_folder(dir: &Path) {
    let conn = Connection::open(dir.join(paths::CATALOG)).unwrap();
    conn.execute_batch(include_str!("catalog_v1.sql")).unwrap();
    conn.pragma_update(None, "application_id", 0x5449_4445).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    let shape = r#"{"fields":[["id",{"Scalar":{"ty":"Text","wide":false,"mixed":false}}],["timestamp",{"Scalar":{"ty":"Time","wide":false,"mixed":false}}],["event_message",{"Scalar":{"ty":"Text","wide":false,"mixed":false}}]]}"#;
    conn.execute("INSERT INTO sources VALUES (1, ?1, 'edge', ?2, 11)", (Uuid::from_u128(1), shape)).unwrap();
    conn.execute("INSERT INTO wal (source, body) VALUES (1, ?1)", [EVENTS.as_bytes()]).unwrap();
    conn.execute("INSERT INTO components VALUES ('d', ?1)", [b"component"]).unwrap();
    conn.execute("INSERT INTO endpoints VALUES (?1, 'e', 2, '{\"v\":2}', 'd', 12, 14)", [Uuid::from_u128(2)]).unwrap();
    for (version, at) in [(1, 12), (2, 14)] {
        let manifest = format!("{{\"v\":{version}}}");
        conn.execute(
            "INSERT INTO endpoint_versions VALUES (?1, ?2, 'e', ?3, 'd', ?4)",
            (Uuid::from_u128(2), version, manifest, at),
        )
        .unwrap();
    }
    conn.execute(
        "INSERT INTO tokens VALUES (?1, ?2, 'test', 'query', '{}', 5, NULL, NULL)",
        (Uuid::from_u128(3), vec![3_u8; 32]),
    )
    .unwrap();
    conn.execute("INSERT INTO meta VALUES ('seeded', '1')", []).unwrap();
}

#[tokio::test]
async fn a_catalog_of_version_1_is_brought_up_to_date() {
    let dir = tempfile::tempdir().unwrap();
    old_folder(dir.path());
    let refused = Catalog::open_beside(dir.path()).unwrap_err();
    assert!(refused.to_string().contains("start the server"), "{refused}");

    for _ in 0..2 {
        let store = Store::open(dir.path(), manual()).unwrap();
        let source = store.source("edge").unwrap();
        assert_eq!((source.id, source.created_at), (Uuid::from_u128(1), 11));
        assert_eq!(
            all(&store, "edge").await,
            [json!({"id": "old", "timestamp": 1_700_000_000_000_000_i64, "event_message": "kept"})]
        );
        let catalog = store.catalog();
        let endpoint = catalog.endpoint_by_name("e").unwrap().unwrap();
        assert_eq!((endpoint.id, endpoint.version, endpoint.created_at), (Uuid::from_u128(2), 2, 12));
        assert_eq!((endpoint.author.as_str(), endpoint.sources.len()), ("", 0));
        let versions = catalog.endpoint_versions(endpoint.id).unwrap();
        assert_eq!(versions.iter().map(|v| v.manifest.as_str()).collect::<Vec<_>>(), ["{\"v\":2}", "{\"v\":1}"]);
        assert_eq!(versions[0], endpoint);
        assert_eq!(catalog.component("d").unwrap().unwrap(), b"component");
        assert_eq!(catalog.tokens().unwrap(), [token(Uuid::from_u128(3), 3)]);
        assert_eq!(catalog.meta("seeded").unwrap().unwrap(), "1");
        assert_eq!(catalog.tokens_generation().unwrap(), 0);
        store.flush().await.unwrap();
    }
    let beside = Catalog::open_beside(dir.path()).unwrap();
    beside.revoke_token(Uuid::from_u128(3)).unwrap();
    assert_eq!(beside.tokens_generation().unwrap(), 1);
}

#[test]
fn a_catalog_of_version_2_gets_tokens_with_limits() {
    let dir = tempfile::tempdir().unwrap();
    old_folder(dir.path());
    let conn = Connection::open(dir.path().join(paths::CATALOG)).unwrap();
    conn.execute_batch(include_str!("../catalog/migrate_2.sql")).unwrap();
    conn.pragma_update(None, "user_version", 2).unwrap();
    drop(conn);
    let limited = TokenRecord { limits: "{\"rows\":\"5\"}".to_owned(), created_at: 6, ..token(Uuid::from_u128(4), 4) };
    {
        let store = open(&dir);
        assert_eq!(store.catalog().tokens().unwrap(), [token(Uuid::from_u128(3), 3)]);
        store.catalog().put_token(&limited).unwrap();
    }
    assert_eq!(open(&dir).catalog().tokens().unwrap(), [token(Uuid::from_u128(3), 3), limited]);
}

#[test]
fn a_catalog_of_version_4_gets_tokens_that_say_how_errors_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    old_folder(dir.path());
    let conn = Connection::open(dir.path().join(paths::CATALOG)).unwrap();
    for step in [
        include_str!("../catalog/migrate_2.sql"),
        include_str!("../catalog/migrate_3.sql"),
        include_str!("../catalog/migrate_4.sql"),
    ] {
        conn.execute_batch(step).unwrap();
    }
    conn.pragma_update(None, "user_version", 4).unwrap();
    drop(conn);
    let ok = TokenRecord { errors: Some("ok".to_owned()), created_at: 6, ..token(Uuid::from_u128(4), 4) };
    {
        let store = open(&dir);
        assert_eq!(store.catalog().tokens().unwrap(), [token(Uuid::from_u128(3), 3)]);
        store.catalog().put_token(&ok).unwrap();
    }
    assert_eq!(open(&dir).catalog().tokens().unwrap(), [token(Uuid::from_u128(3), 3), ok]);
}

#[test]
fn both_roads_end_at_the_same_schema() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    old_folder(old.path());
    let describe = |dir: &tempfile::TempDir| {
        let store = open(dir);
        let conn = store.catalog().lock();
        let mut statement = conn
            .prepare(
                "SELECT s.type, s.name, c.name, c.type, c.\"notnull\", c.dflt_value, c.pk
                 FROM sqlite_schema s LEFT JOIN pragma_table_info(s.name) c ORDER BY 1, 2, 3",
            )
            .unwrap();
        let rows = statement
            .query_map([], |row| {
                (0..7).map(|i| row.get_ref(i).map(|value| format!("{value:?}"))).collect::<Result<Vec<_>, _>>()
            })
            .unwrap();
        rows.collect::<Result<Vec<_>, _>>().unwrap()
    };
    let (old, new) = (describe(&old), describe(&new));
    assert!(old.len() > 50);
    assert_eq!(old, new);
}

#[test]
fn a_catalog_of_tomorrow_or_of_somebody_else_is_refused() {
    for (application, version) in [(0x5449_4445, database::VERSION + 1), (0x5449_4445, 0), (1, 1), (0, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let conn = Connection::open(dir.path().join(paths::CATALOG)).unwrap();
        conn.execute_batch("CREATE TABLE theirs (x)").unwrap();
        conn.pragma_update(None, "application_id", application).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        drop(conn);
        assert!(matches!(Store::open(dir.path(), manual()), Err(StoreError::Incompatible { .. })));
        assert!(matches!(Catalog::open_beside(dir.path()), Err(StoreError::Incompatible { .. })));
    }
}

#[test]
fn denied_tokens_are_bounded_and_end() {
    let (dir, store) = opened(manual());
    let catalog = store.catalog();
    let record = |value: &str, created_at: i64, until: i64| DeniedRecord {
        id: Uuid::new_v4(),
        issuer: "https://id.example.com/".to_owned(),
        claim: "sub".to_owned(),
        value: value.to_owned(),
        until,
        reason: "left".to_owned(),
        created_at,
    };
    let before = catalog.tokens_generation().unwrap();
    let (one, two) = (record("u1", 1, 10), record("u2", 2, 20));
    assert_eq!(catalog.deny(&one, 2).unwrap(), Some(one.clone()));
    assert_eq!(catalog.deny(&two, 2).unwrap(), Some(two.clone()));
    assert!(catalog.tokens_generation().unwrap() > before, "servers notice it");
    // There are no more, but an entry may get another end.
    assert_eq!(catalog.deny(&record("u3", 3, 30), 2).unwrap(), None);
    let longer = DeniedRecord { until: 15, reason: String::new(), ..one.clone() };
    assert_eq!(
        catalog.deny(&DeniedRecord { id: Uuid::new_v4(), created_at: 3, ..longer.clone() }, 2).unwrap(),
        Some(longer.clone())
    );
    assert_eq!(catalog.denied(0).unwrap(), [longer.clone(), two.clone()]);
    assert_eq!(catalog.denied(15).unwrap(), std::slice::from_ref(&two));
    // What is over makes place.
    let third = record("u3", 16, 30);
    assert_eq!(catalog.deny(&third, 2).unwrap(), Some(third.clone()));
    catalog.drop_ended_denials(20).unwrap();
    assert_eq!(catalog.denied(0).unwrap(), std::slice::from_ref(&third));
    assert!(catalog.allow(third.id).unwrap() && !catalog.allow(third.id).unwrap());
    let after = catalog.tokens_generation().unwrap();
    catalog.drop_ended_denials(100).unwrap();
    assert_eq!(catalog.tokens_generation().unwrap(), after, "nothing was deleted");
    catalog.deny(&two, 2).unwrap();
    drop(store);
    assert_eq!(open(&dir).catalog().denied(0).unwrap(), [two]);
}
