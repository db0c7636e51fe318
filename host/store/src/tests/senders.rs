//! Events that are sent for a tenant are stored only from an intake that was held to their source.

use std::collections::BTreeMap;

use serde_json::json;
use tidegate_model::{Audience, NotForSender, SourceTenancy};

use super::{all, manual, opened};
use crate::{Store, StoreError};

fn abc() -> Audience {
    Audience::Tenant(BTreeMap::from([("project".to_owned(), "abc".to_owned())]))
}

fn declare(store: &Store, source: &str, tenancy: &str) {
    let id = store.source(source).unwrap().id;
    store.set_tenant(id, Some(serde_json::from_str::<SourceTenancy>(tenancy).unwrap())).unwrap();
}

#[tokio::test]
async fn what_was_not_held_to_its_source_is_not_stored() {
    let (_dir, store) = opened(manual());
    for source in ["s", "t", "u"] {
        store.create_source(source).unwrap();
    }
    declare(&store, "s", r#"{"project": "p"}"#);
    declare(&store, "t", r#"{"project": "m.p"}"#);
    let sent = async |made_for: Option<&str>, source: &str| {
        let mut intake = match made_for {
            Some(source) => store.intake_of(source, 0, 1 << 20, abc()),
            None => store.intake(0, abc()),
        };
        intake.add(json!({"event_message": "a"}));
        store.ingest_once(source, intake, None).await
    };
    // A way in that does not say which source its events are for, or says another one, forgot what they must have.
    for made_for in [None, Some("t"), Some("u"), Some("nowhere")] {
        assert!(matches!(sent(made_for, "s").await, Err(StoreError::TenancyChanged(_))), "{made_for:?}");
    }
    let undeclared = sent(Some("u"), "u").await;
    assert!(matches!(undeclared, Err(StoreError::NotForSender { why: NotForSender::Undeclared, .. })));
    assert!(all(&store, "s").await.is_empty());
    assert_eq!(sent(Some("s"), "s").await.unwrap().stored, 1);
    assert_eq!(sent(Some("t"), "t").await.unwrap().stored, 1);
    assert_eq!((all(&store, "s").await.len(), all(&store, "t").await.len()), (1, 1));

    // What a source says may change while events arrive.
    let mut intake = store.intake_of("s", 0, 0, abc());
    intake.add(json!({"event_message": "b"}));
    declare(&store, "s", r#"{"project": "m.p"}"#);
    let late = store.ingest_once("s", intake, None).await;
    assert!(matches!(late, Err(StoreError::TenancyChanged(_))), "{late:?}");
    declare(&store, "s", r#""shared""#);
    assert!(matches!(sent(Some("s"), "s").await, Err(StoreError::NotForSender { why: NotForSender::Shared, .. })));
}
