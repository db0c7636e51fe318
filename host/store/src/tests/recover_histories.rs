//! The disk is lost after each step of random histories.

use std::collections::BTreeSet;

use super::{
    all,
    damage::{Numbers, events},
    durability::copy,
    recover::{Folders, put_catalog},
    segment_files::small,
};
use crate::{Retention, Store, StoreOptions, recover};

/// Ids of the rows of a source.
async fn ids(store: &Store, source: &str) -> BTreeSet<String> {
    if store.source(source).is_none() {
        return BTreeSet::new();
    }
    let rows = all(store, source).await;
    let ids: BTreeSet<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), rows.len(), "a row is there twice");
    ids
}

/// After each step of a random history the disk is lost: what is made of the copies has every row that was in a segment when the
/// newest copy of the catalog was put, and none that never was in one; no object is missing.
#[tokio::test]
async fn whenever_the_disk_is_lost_the_newest_copy_is_whole() {
    for seed in [0x9E37_79B9_7F4A_7C15, 0x1234_5678_9ABC_DEF1] {
        history(seed, 25).await;
    }
}

/// The same for longer: `cargo test -p tidegate-store --lib many_histories -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn many_histories_of_lost_disks() {
    let mut seed = 0x0123_4567_89AB_CDEF_u64;
    for _ in 0..30 {
        seed = seed.rotate_left(7).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        println!("seed {seed:x}");
        history(seed, 40).await;
    }
}

async fn history(seed: u64, steps: usize) {
    const SOURCES: [&str; 2] = ["s", "t"];
    let folders = Folders::new();
    let mut numbers = Numbers(seed);
    let mut store = folders.open("data").unwrap();
    // Rows in segments now, and at the time of the newest copy.
    let mut written: [BTreeSet<String>; 2] = Default::default();
    let (mut copied, mut newest) = (None, None);
    let (mut next, mut drops) = (0, 0);
    for step in 0..steps {
        let at = numbers.below(2);
        let source = SOURCES[at];
        match numbers.below(10) {
            0..=3 => {
                store.ensure_source(source).unwrap();
                store.ingest(source, events(next, 20)).await.unwrap();
                next += 20;
                store.flush().await.unwrap();
                for (source, written) in SOURCES.iter().zip(&mut written) {
                    *written = ids(&store, source).await;
                }
            }
            4 => {
                store.ensure_source(source).unwrap();
                store.ingest(source, events(next, 3)).await.unwrap();
                next += 3;
            }
            5 => store.compact().await.unwrap(),
            6 if store.source(source).is_some() => {
                // What is in memory is flushed first, so that what is there then is what is in segments.
                store.flush().await.unwrap();
                let id = store.source(source).unwrap().id;
                let newest = store.find(source).unwrap().segments().iter().map(|segment| segment.bytes).max();
                let limits =
                    Retention { max_age: None, max_bytes: Some(numbers.below(2) as u64 * newest.unwrap_or(1)) };
                store.set_retention(id, limits).unwrap();
                store.apply_retention().await.unwrap();
                store.apply_retention().await.unwrap();
                store.set_retention(id, Retention::default()).unwrap();
                for (source, written) in SOURCES.iter().zip(&mut written) {
                    *written = ids(&store, source).await;
                }
                drops += 1;
            }
            7 if numbers.below(3) == 0 && store.source(source).is_some() => {
                store.delete_source(store.source(source).unwrap().id).unwrap();
                written[at].clear();
                drops += 1;
            }
            8 => {
                drop(store);
                store = folders.open("data").unwrap();
            }
            _ => {
                put_catalog(&store).unwrap();
            }
        }
        // Deleting puts copies, too.
        let catalogs = folders.catalogs();
        if catalogs.last() != newest.as_ref() {
            newest = catalogs.last().cloned();
            copied = Some((written.clone(), drops));
        }
        let Some((then, drops_then)) = &copied else { continue };
        let (lost, target) = (folders.folder("lost"), folders.folder("recovered"));
        copy(&folders.folder("copies"), &lost);
        let url = format!("file://{}", lost.display());
        let report = recover(&url, &target).unwrap().unwrap();
        assert!(report.lost.is_empty() && report.refused_copies.is_empty(), "seed {seed:x}, step {step}: {report:?}");
        let recovered = Store::open(&target, StoreOptions { copies_url: url, ..small() }).unwrap();
        assert_eq!(recovered.stats().damaged_segments, 0);
        for ((source, then), now) in SOURCES.iter().zip(then).zip(&written) {
            let found = ids(&recovered, source).await;
            let missing: Vec<_> = then.difference(&found).collect();
            assert!(missing.is_empty(), "seed {seed:x}, step {step}, {source}: {missing:?} {report:?}");
            if drops == *drops_then {
                assert_eq!(found, *now, "seed {seed:x}, step {step}, {source}: {report:?}");
            }
        }
        drop(recovered);
        std::fs::remove_dir_all(&lost).unwrap();
        std::fs::remove_dir_all(&target).unwrap();
    }
}
