//! Compiled code on disk: found again, and not believed when it was touched.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tidegate_runtime::{ArtefactOptions, Runtime, RuntimeOptions};

use super::fake::{Fake, component, digest, guest, numbers, options, prepare, request, sql_component};

fn with_artefacts(folder: &TempDir, key: u8) -> RuntimeOptions {
    let artefacts = ArtefactOptions { folder: folder.path().join("compiled"), key: [key; 32] };
    RuntimeOptions { artefacts: Some(artefacts), ..options() }
}

async fn serves(folder: &TempDir, key: u8) {
    let runtime = Runtime::new(with_artefacts(folder, key)).unwrap();
    let endpoint = prepare(&runtime, &sql_component()).await.unwrap();
    let answer = runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await.unwrap();
    assert_eq!(numbers(answer).await.len(), 5);
}

fn only_file(folder: &TempDir) -> PathBuf {
    let files: Vec<_> =
        fs::read_dir(folder.path().join("compiled")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

#[tokio::test]
async fn compiled_code_is_kept_privately_and_used_again() {
    let folder = TempDir::new().unwrap();
    serves(&folder, 1).await;
    let file = only_file(&folder);
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
    serves(&folder, 1).await;
    assert_eq!(fs::metadata(only_file(&folder)).unwrap().modified().unwrap(), written);
}

#[tokio::test]
async fn a_touched_foreign_or_cut_file_is_ignored_and_written_anew() {
    let folder = TempDir::new().unwrap();
    serves(&folder, 1).await;
    let good = fs::read(only_file(&folder)).unwrap();
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    *flipped.get_mut(middle).unwrap() ^= 1;
    for bad in [flipped, good.get(..good.len() - 1).unwrap().to_vec(), good.get(..20).unwrap().to_vec(), Vec::new()] {
        fs::write(only_file(&folder), &bad).unwrap();
        serves(&folder, 1).await;
        assert_ne!(fs::read(only_file(&folder)).unwrap(), bad);
    }
    // Another server's key: its file is not ours.
    let ours = fs::read(only_file(&folder)).unwrap();
    serves(&folder, 2).await;
    assert_ne!(fs::read(only_file(&folder)).unwrap(), ours);
}

#[tokio::test]
async fn the_code_of_another_component_under_this_name_is_ignored() {
    let folder = TempDir::new().unwrap();
    serves(&folder, 1).await;
    let good = only_file(&folder);
    let bytes = fs::read(&good).unwrap();
    // The same authentic file, under the digest of the ad-hoc component.
    let runtime = Runtime::new(with_artefacts(&folder, 1)).unwrap();
    let adhoc = tidegate_compiler::compile_adhoc().unwrap();
    prepare(&runtime, &adhoc).await.unwrap();
    let files: Vec<_> = fs::read_dir(good.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let other = files.iter().find(|file| **file != good).unwrap();
    fs::write(other, &bytes).unwrap();
    let runtime = Runtime::new(with_artefacts(&folder, 1)).unwrap();
    let endpoint = prepare(&runtime, &adhoc).await.unwrap();
    let failure = runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await.unwrap_err().failure;
    assert!(failure.message.contains("'sql'"), "the ad-hoc component ran, not the other: {failure}");
}

#[tokio::test]
async fn nothing_is_kept_of_what_is_refused_and_what_was_admitted_is_not_tried_again() {
    let folder = TempDir::new().unwrap();
    let runtime = Runtime::new(with_artefacts(&folder, 1)).unwrap();
    let handler = r#"(func (export "tidegate:endpoint/handler@0.1.0#handle") (param i32) (result i32) unreachable)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)"#;
    let bad =
        component(&format!(r#"(module (memory (export "memory") 1) (func $s unreachable) (start $s) {handler})"#));
    prepare(&runtime, &bad).await.unwrap_err();
    assert_eq!(fs::read_dir(folder.path().join("compiled")).unwrap().count(), 0);
    runtime.check(&bad, digest(&bad)).await.unwrap();
    assert!(only_file(&folder).is_file());
    assert!(runtime.ready(&digest(&bad)).is_none(), "a check keeps nothing in memory");
    // Once admitted, it is for its requests to fail.
    let endpoint = runtime.prepare_again(&bad, digest(&bad)).await.unwrap();
    assert!(Arc::ptr_eq(&endpoint, &runtime.ready(&digest(&bad)).unwrap()));
    runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await.unwrap_err();
}

#[tokio::test]
async fn what_is_kept_ready_is_bounded_and_the_oldest_goes_first() {
    let guests: Vec<Vec<u8>> = (0..3).map(|i| guest("", &format!("(drop (i32.const {i})) unreachable"))).collect();
    let kept = async |options: RuntimeOptions| {
        let runtime = Runtime::new(options).unwrap();
        for guest in &guests {
            prepare(&runtime, guest).await.unwrap();
            // Whoever is used stays.
            runtime.ready(&digest(&guests[0]));
        }
        let size = runtime.pool_use();
        let ready: Vec<bool> = guests.iter().map(|guest| runtime.ready(&digest(guest)).is_some()).collect();
        (ready, size.ready, size.ready_bytes)
    };
    let (all, count, bytes) = kept(options()).await;
    assert_eq!((all, count), (vec![true; 3], 3));
    assert!(bytes > 3 * 4096, "{bytes}");
    assert_eq!(kept(RuntimeOptions { prepared: 2, ..options() }).await.0, [true, false, true]);
    let (ready, _, held) = kept(RuntimeOptions { prepared_bytes: bytes - 1, ..options() }).await;
    assert_eq!(ready, [true, false, true]);
    assert!(held < bytes);
    // The one at hand stays, however large.
    assert_eq!(kept(RuntimeOptions { prepared_bytes: 0, ..options() }).await.1, 1);
}

#[tokio::test]
async fn what_cannot_be_made_ready_pushes_nothing_out() {
    let runtime = Runtime::new(RuntimeOptions { prepared: 2, ..options() }).unwrap();
    let good: Vec<Vec<u8>> = (0..2).map(|i| guest("", &format!("(drop (i32.const {i})) unreachable"))).collect();
    for guest in &good {
        prepare(&runtime, guest).await.unwrap();
    }
    for n in 0..5_u8 {
        let junk = [b"\0asm", [n; 8].as_slice()].concat();
        prepare(&runtime, &junk).await.unwrap_err();
    }
    for guest in &good {
        assert!(runtime.ready(&digest(guest)).is_some());
    }
}

#[tokio::test]
async fn code_that_nothing_needs_is_swept_and_what_is_newer_or_not_ours_stays() {
    let folder = TempDir::new().unwrap();
    let runtime = Runtime::new(with_artefacts(&folder, 1)).unwrap();
    let guests: Vec<Vec<u8>> = (0..3).map(|i| guest("", &format!("(drop (i32.const {i})) unreachable"))).collect();
    for guest in &guests {
        prepare(&runtime, guest).await.unwrap();
    }
    let compiled = folder.path().join("compiled");
    let now = SystemTime::now();
    let aged = |name: String, days: u64| {
        let path = compiled.join(name);
        if !path.exists() {
            fs::write(&path, "x").unwrap();
        }
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(now - Duration::from_secs(days * 24 * 3600)).unwrap();
    };
    let names = || -> BTreeSet<String> {
        fs::read_dir(&compiled).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    let own = names();
    let of = |guest: &[u8]| {
        let digest: String = digest(guest).iter().map(|byte| format!("{byte:02x}")).collect();
        own.iter().find(|name| name.starts_with(&digest)).unwrap().clone()
    };
    let another = |digit: &str| format!("{}-0123456789abcdef.cwasm", digit.repeat(64));
    // The first two are old, the third was compiled after the look at who needs what.
    aged(of(&guests[0]), 1);
    aged(of(&guests[1]), 30);
    aged(another("1"), 1);
    aged(another("2"), 8);
    aged("half.17.tmp".to_owned(), 8);
    aged("half.18.tmp".to_owned(), 0);
    aged("notes.txt".to_owned(), 100);
    let live = HashSet::from([digest(&guests[1])]);
    assert_eq!(runtime.sweep(&live, now - Duration::from_secs(3600)), 3);
    let left = [of(&guests[1]), of(&guests[2]), another("1"), "half.18.tmp".to_owned(), "notes.txt".to_owned()];
    assert_eq!(names(), BTreeSet::from(left));
    // Without a folder there is nothing to sweep.
    assert_eq!(Runtime::new(options()).unwrap().sweep(&live, now), 0);
}
