//! Copies of a catalog and recovery while the object store fails: errors that can be tried again, and never less than was put.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use uuid::Uuid;

use super::{
    all,
    damage::{events, fill},
    object_server::{Fault, ObjectServer},
    objects::limits,
    segment_files::small,
};
use crate::{
    RecoveryReport, Store, StoreError,
    maintenance::recover::recover_with,
    objects::{client::RequestLimits, copies::ObjectCopies, ownership::Before},
};

const URL: &str = "s3://bucket/logs";

/// A store with three segments in a bucket, and who puts copies of its catalog there.
struct Lost {
    server: ObjectServer,
    all: tempfile::TempDir,
    store: Arc<Store>,
}

impl Lost {
    async fn new() -> Lost {
        let (server, all) = (ObjectServer::start(), tempfile::tempdir().unwrap());
        let store = Store::open(&all.path().join("data"), small()).unwrap();
        store.create_source("s").unwrap();
        fill(&store, 3).await;
        Lost { server, all, store }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    fn identities(&self) -> (Uuid, Uuid, Before) {
        (self.store.catalog.identity().unwrap(), self.store.catalog.writer().unwrap(), Before::Own)
    }

    fn copies(&self) -> Result<ObjectCopies, StoreError> {
        self.copies_of(true)
    }

    fn copies_of(&self, is_manual: bool) -> Result<ObjectCopies, StoreError> {
        let settings = self.server.settings();
        ObjectCopies::open(URL, &self.folder("data"), self.identities(), is_manual, settings, limits())
    }

    fn put_segments(&self) {
        self.server.put_segments(&self.folder("data"), "logs/");
    }

    fn recover(&self, data: &str) -> Result<Option<RecoveryReport>, StoreError> {
        let limits = RequestLimits { retry_time: Duration::from_secs(1), ..limits() };
        recover_with(URL, &self.folder(data), self.server.settings(), limits)
    }

    fn catalogs(&self) -> Vec<String> {
        let names = self.server.objects().into_keys();
        names.filter(|name| name.starts_with("logs/catalog/")).collect()
    }

    async fn same_rows(&self, data: &Path) {
        assert_eq!(all(&Store::open(data, small()).unwrap(), "s").await, all(&self.store, "s").await);
    }
}

#[tokio::test]
async fn a_copy_is_whole_or_not_there_whatever_fails() {
    let lost = Lost::new().await;
    lost.put_segments();
    let copies = lost.copies().unwrap();
    copies.put_catalog().unwrap();
    for fault in [Fault::Status(500), Fault::Status(503), Fault::Close, Fault::Slow(Duration::from_millis(900))] {
        // The request that puts fails once, or every time.
        for times in [1, 1000] {
            let failed = AtomicUsize::new(0);
            lost.server.faults(move |request| {
                let is_put = request.method == "PUT" && request.object.contains("/catalog/");
                (is_put && failed.fetch_add(1, Ordering::SeqCst) < times).then_some(fault)
            });
            let put = copies.put_catalog();
            assert!(!matches!(put, Err(StoreError::Replaced { .. })), "{fault:?} {times}: {put:?}");
            lost.server.faults(|_| None);
            copies.put_catalog().unwrap();
            assert_eq!(lost.catalogs().len(), 3, "{fault:?} {times}");
        }
    }
    let names = lost.catalogs();
    let report = lost.recover("new").unwrap().unwrap();
    assert_eq!((&report.copy, report.rows), (names.last().unwrap(), 900));
    lost.same_rows(&lost.folder("new")).await;
}

#[tokio::test]
async fn an_epoch_is_taken_once_whatever_is_listed() {
    let lost = Lost::new().await;
    let first = lost.copies().unwrap();
    first.put_catalog().unwrap();
    let epoch = |copies: &ObjectCopies| copies.counters.epoch.load(Ordering::Relaxed);
    // A list that lacks the last epoch, and one of the copies of the catalog that lacks the last one.
    lost.server.faults(|request| request.object.is_empty().then_some(Fault::Stale));
    let second = lost.copies().unwrap();
    assert_eq!((epoch(&first), epoch(&second)), (1, 2));
    assert!(matches!(first.put_catalog(), Err(StoreError::Replaced { .. })));
    second.put_catalog().unwrap();
    // An epoch that was taken, which nobody was told.
    let failed = AtomicUsize::new(0);
    lost.server.faults(move |request| {
        let is_epoch = request.method == "PUT" && request.object.contains("/epochs/");
        (is_epoch && failed.fetch_add(1, Ordering::SeqCst) == 0).then_some(Fault::Close)
    });
    let third = lost.copies().unwrap();
    let _ = third.claim();
    lost.server.faults(|_| None);
    let taken = third.claim().unwrap();
    assert!((3..=4).contains(&taken), "{taken}");
    assert!(matches!(second.check_epoch(), Err(StoreError::Replaced { .. })));
    third.put_catalog().unwrap();
    // A store that is down when a replaced server starts: it is told as soon as it answers.
    lost.put_segments();
    lost.recover("new").unwrap().unwrap();
    lost.server.faults(|_| Some(Fault::Status(503)));
    let late = lost.copies().unwrap();
    assert!(late.check_replaced().is_ok());
    lost.server.faults(|_| None);
    assert!(matches!(late.put_catalog(), Err(StoreError::Replaced { .. })));
    assert!(late.check_replaced().is_err());
}

#[tokio::test]
async fn what_a_copy_names_is_not_deleted_nor_what_another_server_may_have_read() {
    let lost = Lost::new().await;
    lost.put_segments();
    let copies = lost.copies_of(false).unwrap();
    let segments = lost.store.find("s").unwrap().segments();
    let dropped = [(segments[0].id, segments[0].source)];
    copies.put_catalog().unwrap();
    for _ in 0..2 {
        assert_eq!(copies.delete(&dropped).unwrap(), []);
        assert!(copies.is_catalog_awaited());
    }
    for copy in 1..=3 {
        assert_eq!(copies.delete(&dropped).unwrap(), [], "{copy}");
        copies.put_catalog().unwrap();
    }
    assert!(!copies.is_catalog_awaited());
    // Another server begins to recover, with a copy of which this one has not heard.
    lost.recover("new").unwrap().unwrap();
    assert!(matches!(copies.delete(&dropped), Err(StoreError::Replaced { .. })));
    assert_eq!(lost.server.objects().keys().filter(|name| name.contains("/segments/")).count(), 3);
}

#[tokio::test]
async fn two_that_recover_at_the_same_time_do_not_both_go_on() {
    let lost = Lost::new().await;
    lost.put_segments();
    lost.copies().unwrap().put_catalog().unwrap();
    // The first is cut off after it has taken its epoch.
    lost.server.faults(|request| request.object.contains("/segments/").then_some(Fault::Status(500)));
    assert!(matches!(lost.recover("one"), Err(StoreError::ObjectStore { .. })));
    lost.server.faults(|_| None);
    lost.recover("two").unwrap().unwrap();
    match lost.recover("one") {
        Err(StoreError::RecoveryRefused { reason, .. }) => assert!(reason.contains("another server"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(!lost.folder("one/catalog.sqlite").exists());
}

#[tokio::test]
async fn a_recovery_that_is_cut_off_goes_on() {
    let lost = Lost::new().await;
    lost.put_segments();
    lost.copies().unwrap().put_catalog().unwrap();
    let gets = Arc::new(AtomicUsize::new(0));
    for allowed in 0.. {
        let (counted, asked) = (Arc::clone(&gets), AtomicUsize::new(0));
        lost.server.faults(move |request| {
            let is_segment = request.method == "GET" && request.object.contains("/segments/");
            if !is_segment {
                return None;
            }
            let failed = asked.fetch_add(1, Ordering::SeqCst) >= allowed;
            counted.fetch_add(usize::from(!failed), Ordering::SeqCst);
            failed.then_some(Fault::Status(500))
        });
        match lost.recover("new") {
            Err(StoreError::ObjectStore { .. }) => {
                assert!(!lost.folder("new/catalog.sqlite").exists());
                // Nobody takes it for a data folder.
                let opened = Store::open(&lost.folder("new"), small());
                assert!(matches!(opened, Err(StoreError::Unrecovered(_))), "{opened:?}");
            }
            done => {
                let report = done.unwrap().unwrap();
                assert_eq!((report.rows, report.lost.len()), (900, 0));
                break;
            }
        }
    }
    // Each segment once.
    assert_eq!(gets.load(Ordering::SeqCst), 3);
    lost.same_rows(&lost.folder("new")).await;
}

#[tokio::test]
async fn wrong_bytes_on_the_way_are_fetched_again_and_an_old_list_is_an_earlier_state() {
    let lost = Lost::new().await;
    lost.put_segments();
    let copies = lost.copies().unwrap();
    copies.put_catalog().unwrap();
    lost.store.ingest("s", events(900, 300)).await.unwrap();
    lost.store.flush().await.unwrap();
    lost.put_segments();
    copies.put_catalog().unwrap();
    let before = all(&lost.store, "s").await;
    let slow = Fault::Slow(Duration::from_millis(900));
    for (name, fault) in [("cut", Fault::Cut), ("flip", Fault::Flip), ("slow", slow), ("stale", Fault::Stale)] {
        let failed = AtomicUsize::new(0);
        lost.server.faults(move |request| {
            let is_concerned = match fault {
                Fault::Stale => request.object.is_empty(),
                _ => request.method == "GET" && request.object.contains("/segments/"),
            };
            (is_concerned && (fault == Fault::Stale || failed.fetch_add(1, Ordering::SeqCst) == 0)).then_some(fault)
        });
        let report = lost.recover(name).unwrap().unwrap();
        assert!(report.lost.is_empty() && report.refused_copies.is_empty(), "{name}: {report:?}");
        let rows = all(&Store::open(&lost.folder(name), small()).unwrap(), "s").await;
        if fault == Fault::Stale {
            assert!(rows.len() >= 900 && rows.len() <= before.len(), "{}", rows.len());
        } else {
            assert_eq!(rows, before, "{name}");
        }
    }
}

#[tokio::test]
async fn a_put_that_hangs_is_told_before_it_fails() {
    let lost = Lost::new().await;
    let copies = Arc::new(lost.copies().unwrap());
    assert!(!copies.is_failing());
    // It is stopped as soon as it was told.
    lost.server.faults(|request| (request.method == "PUT").then_some(Fault::Slow(Duration::from_secs(30))));
    let path = lost.folder("file");
    std::fs::write(&path, "segment").unwrap();
    let putting = {
        let (copies, path) = (Arc::clone(&copies), path.clone());
        std::thread::spawn(move || copies.put(Uuid::new_v4(), Uuid::new_v4(), &path, 7))
    };
    while !copies.is_failing() {
        assert!(!putting.is_finished(), "it ended, and was not told");
        std::thread::sleep(Duration::from_millis(10));
    }
    copies.stop();
    assert!(matches!(putting.join().unwrap(), Err(StoreError::Closed)));
    assert!(!copies.is_failing());
}
