//! Compiled code on disk: found again, and not believed when it was touched.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_runtime::{ArtefactOptions, Runtime, RuntimeOptions};

use super::fake::{Fake, numbers, options, prepare, request, sql_component};

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
