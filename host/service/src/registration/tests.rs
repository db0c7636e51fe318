//! A change whose client disconnects in the middle.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::time::Duration;

use futures::FutureExt;
use tidegate_compiler::manifest_of_texts;

use super::*;
use crate::catalog::EndpointTable;
use crate::options::Options;
use crate::service::Service;

/// The endpoint's version in the catalog; nothing if it is not there.
fn in_catalog(service: &Service, name: &str) -> Option<i64> {
    let entries = EndpointTable(service.store.catalog()).entries().unwrap();
    entries.into_iter().find(|entry| entry.name == name).map(|entry| entry.version)
}

// On one thread a task does not go on while its test looks at the catalog.
#[tokio::test]
async fn a_client_who_leaves_during_the_commit_leaves_no_half_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = Service::open(Options::new(folder.path())).await.unwrap();
    let manifest = Arc::new(manifest_of_texts("name = \"left\"", "SELECT event_message FROM `postgres.logs`").unwrap());
    let saving = {
        let (service, manifest) = (Arc::clone(&service), Arc::clone(&manifest));
        tokio::spawn(async move { service.registrar.register_query(&manifest, SaveRequest::default()).await })
    };
    while in_catalog(&service, "left").is_none() {
        assert!(!saving.is_finished());
        tokio::task::yield_now().await;
        std::thread::sleep(Duration::from_millis(5));
    }
    saving.abort();
    let _ = saving.await;
    // Whoever goes on has the lock, and whoever has it next sees all or nothing.
    drop(service.registry.registering.lock().await);
    let id = service.registry.find("left").unwrap().id;
    assert_eq!(service.registry.by_id(id).map(|entry| entry.version), in_catalog(&service, "left"));

    // Leaves after the first step, which hands the deletion to the catalog.
    assert!(service.registrar.unregister(id).now_or_never().is_none());
    while in_catalog(&service, "left").is_some() {
        tokio::task::yield_now().await;
    }
    drop(service.registry.registering.lock().await);
    assert!(service.registry.find("left").is_none());
    // The name is free again.
    service.registrar.register_query(&manifest, SaveRequest::default()).await.unwrap();
    service.close().await.unwrap();
}
