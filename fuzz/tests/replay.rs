//! The checks over the committed corpus and over what once broke a promise, in every test run.
#![expect(clippy::unwrap_used, reason = "a test stops where its premise does not hold")]

use std::path::Path;

/// Checks every file of a folder, if there is one, and names all that break a promise.
fn replay(folder: &str, check: fn(&str)) -> usize {
    replay_bytes(folder, |bytes| check(std::str::from_utf8(bytes).unwrap()))
}

/// The same for files that are no texts.
fn replay_bytes(folder: &str, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else { return 0 };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let broken: Vec<_> = files
        .iter()
        .filter(|file| {
            let bytes = std::fs::read(file).unwrap();
            std::panic::catch_unwind(|| check(&bytes)).is_err()
        })
        .collect();
    assert!(broken.is_empty(), "these inputs break a promise: {broken:#?}");
    files.len()
}

#[test]
fn sql_of_the_corpus() {
    assert!(replay("corpus/sql", tidegate_fuzz::sql) > 0);
}

#[test]
fn lql_of_the_corpus() {
    assert!(replay("corpus/lql", tidegate_fuzz::lql) > 0);
}

#[test]
fn sql_that_once_failed() {
    replay("regressions/sql", tidegate_fuzz::sql);
}

#[test]
fn lql_that_once_failed() {
    replay("regressions/lql", tidegate_fuzz::lql);
}

#[test]
fn uploads_of_the_corpus() {
    assert!(replay_bytes("corpus/upload", tidegate_fuzz::upload) > 0);
}

#[test]
fn syslog_of_the_corpus() {
    assert!(replay_bytes("corpus/syslog", tidegate_fuzz::syslog) > 0);
}

#[test]
fn syslog_that_once_failed() {
    replay_bytes("regressions/syslog", tidegate_fuzz::syslog);
}

#[test]
fn claims_of_the_corpus() {
    assert!(replay_bytes("corpus/claims", tidegate_fuzz::claims) > 0);
}

#[test]
fn claims_that_once_failed() {
    replay_bytes("regressions/claims", tidegate_fuzz::claims);
}

#[test]
fn claims_and_their_mutations() {
    mutations("corpus/claims", tidegate_fuzz::claims);
}

#[test]
fn bodies_at_doors_and_their_mutations() {
    mutations("corpus/doors", tidegate_fuzz::doors);
}

#[test]
fn syslog_and_its_mutations() {
    mutations("corpus/syslog", tidegate_fuzz::syslog);
}

/// Checks what becomes of the files of a folder when some of their bytes change.
fn mutations(folder: &str, check: fn(&[u8])) {
    let mut random = 7_u64;
    let mut below = |end: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 11).unwrap() % end
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let whole = std::fs::read(file).unwrap();
        for _ in 0..500 {
            let mut made = whole.clone();
            for _ in 0..=below(3) {
                let (at, byte) = (1 + below((made.len() - 1).max(1)), u8::try_from(below(256)).unwrap());
                match below(4) {
                    0 => made.iter_mut().skip(at).take(1).for_each(|own| *own = byte),
                    1 => made.truncate(at.max(2)),
                    2 => made.insert(at.min(made.len()), byte),
                    _ => {
                        let piece: Vec<u8> = made.iter().skip(below(at)).take(below(40)).copied().collect();
                        let at = at.min(made.len());
                        made.splice(at..at, piece);
                    }
                }
            }
            // Without the line of its form, another form is chosen.
            if below(8) == 0 {
                let line = made.iter().position(|byte| *byte == b'\n').map_or(1, |end| end + 1);
                made.splice(..line, [u8::try_from(below(256)).unwrap()]);
            }
            let kept = made.clone();
            let done = std::panic::catch_unwind(move || check(&made));
            assert!(done.is_ok(), "this input breaks a promise: {kept:?}");
        }
    }
}

#[test]
fn plans_of_the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/plans");
    let is_update = std::env::var_os("TIDEGATE_UPDATE").is_some();
    if is_update {
        std::fs::create_dir_all(&folder).unwrap();
    }
    for (name, bytes) in tidegate_fuzz::plan_seeds() {
        assert!(tidegate_fuzz::is_plan(&bytes), "{name}");
        let file = folder.join(name);
        if is_update {
            std::fs::write(&file, &bytes).unwrap();
        }
        // The plan of today may be another one; what counts is that the corpus still has plans.
        let is_plan = std::fs::read(&file).is_ok_and(|bytes| tidegate_fuzz::is_plan(&bytes));
        assert!(is_plan, "corpus/plans/{name} is no plan any more: run this test with TIDEGATE_UPDATE=1");
    }
    assert!(replay_bytes("corpus/plans", tidegate_fuzz::plans) > 0);
}

#[test]
fn plans_that_once_failed() {
    replay_bytes("regressions/plans", tidegate_fuzz::plans);
}

#[test]
fn bodies_of_the_corpus() {
    assert!(replay_bytes("corpus/doors", tidegate_fuzz::doors) > 0);
}

#[test]
fn bodies_that_once_failed() {
    replay_bytes("regressions/doors", tidegate_fuzz::doors);
}

#[test]
fn uploads_that_once_failed() {
    replay_bytes("regressions/upload", tidegate_fuzz::upload);
}
