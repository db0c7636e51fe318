//! The catalog: settings, and the migration of its schema. Tables that are not the store's are read as their owner left them.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{all, manual, open, opened};
use crate::{Catalog, Store, StoreError, catalog::database, data_folder::paths};

#[test]
fn settings_are_kept() {
    let (_dir, store) = opened(manual());
    let catalog = store.catalog();
    assert_eq!(catalog.meta("k").unwrap(), None);
    catalog.set_meta("k", "1").unwrap();
    catalog.set_meta("k", "2").unwrap();
    assert_eq!(catalog.meta("k").unwrap().unwrap(), "2");
}

#[test]
fn nothing_is_created_beside_a_server() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Catalog::open_beside(dir.path()), Err(StoreError::NoCatalog(_))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Rows of a table, each as JSON of these columns.
fn rows(catalog: &Catalog, columns: &str, table: &str) -> Vec<Value> {
    let conn = catalog.lock();
    let mut statement = conn.prepare(&format!("SELECT json_array({columns}) FROM {table} ORDER BY 1")).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap()).collect()
}

const TOKEN: &str = "hex(hash), description, scopes, pinned, limits, errors, created_at, expires_at, revoked_at";

/// The token of [`old_folder`], as a row of [`TOKEN`].
fn old_token() -> Value {
    json!(["03".repeat(32), "test", "query", "{}", "{}", null, 5, null, null])
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
        let version = "hex(id), version, manifest, component, author, sources, created_at";
        let id = Uuid::from_u128(2).simple().to_string().to_uppercase();
        let of = |version: i64, created_at: i64| {
            json!([id, version, format!("{{\"v\":{version}}}"), "d", "", "{}", created_at])
        };
        let newest = rows(catalog, &format!("{version}, name, updated_at"), "endpoints");
        assert_eq!(newest, [json!([id, 2, "{\"v\":2}", "d", "", "{}", 12, "e", 14])]);
        assert_eq!(rows(catalog, version, "endpoint_versions"), [of(1, 12), of(2, 14)]);
        assert_eq!(rows(catalog, "digest, hex(bytes)", "components"), [json!(["d", "636F6D706F6E656E74"])]);
        assert_eq!(rows(catalog, TOKEN, "tokens"), [old_token()]);
        assert_eq!(catalog.meta("seeded").unwrap().unwrap(), "1");
        assert_eq!(catalog.meta("tokens_generation").unwrap().unwrap(), "0");
        store.flush().await.unwrap();
    }
    let beside = Catalog::open_beside(dir.path()).unwrap();
    beside.lock().execute("UPDATE tokens SET revoked_at = 1", []).unwrap();
    assert_eq!(beside.meta("tokens_generation").unwrap().unwrap(), "1", "what counts changes of tokens is there");
}

#[test]
fn tokens_of_every_version_are_kept_and_get_limits_and_a_status_of_errors() {
    for (done, version) in (1..database::VERSION).enumerate() {
        let dir = tempfile::tempdir().unwrap();
        old_folder(dir.path());
        let conn = Connection::open(dir.path().join(paths::CATALOG)).unwrap();
        for step in database::MIGRATIONS.iter().take(done) {
            conn.execute_batch(step).unwrap();
        }
        conn.pragma_update(None, "user_version", version).unwrap();
        drop(conn);
        let store = open(&dir);
        assert_eq!(rows(store.catalog(), TOKEN, "tokens"), [old_token()], "version {version}");
        let set = "UPDATE tokens SET limits = '{\"rows\":\"5\"}', errors = 'ok'";
        assert_eq!(store.catalog().lock().execute(set, []).unwrap(), 1, "version {version}");
    }
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
