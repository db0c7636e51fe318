//! The saved queries of the endpoints in this tree and the questions of the benchmark, over sources of which some rows lie in
//! segments and some in memory: whole, and by an engine that gives parts of them to workers.

#[path = "shipped/mod.rs"]
mod shipped;

use shipped::{Logs, logs, queries, rows};
use tidegate_sql::{Engine, EngineOptions, SavedQuery};

/// Runs all of them both ways, and compares.
pub(crate) fn compare(parted: impl Fn(&EngineOptions) -> Engine) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let sources = Logs(logs(&folder.path().join("data")).await);
        let options = |partitions| EngineOptions {
            partitions,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let (mut same, mut in_order, mut with_rows, mut failed) = (0, 0, 0, 0);
        for (saved, sql, arguments) in queries() {
            let shown = sql.as_deref().unwrap_or(&saved);
            let parsed = SavedQuery::parse(&saved).expect("a saved query");
            for partitions in [1, 3] {
                let whole = Engine::new(&options(partitions)).unwrap();
                let expected = rows(&whole, &sources, &parsed, sql.as_deref(), &arguments).await;
                let parted = parted(&options(partitions));
                let got = rows(&parted, &sources, &parsed, sql.as_deref(), &arguments).await;
                match (expected, got) {
                    (Ok(mut expected), Ok(mut got)) => {
                        in_order += usize::from(got == expected);
                        expected.sort();
                        got.sort();
                        assert_eq!(got, expected, "{shown}");
                        same += 1;
                        with_rows += usize::from(!expected.is_empty());
                    }
                    (Err(expected), Err(got)) => {
                        assert_eq!((got.code, got.message), (expected.code, expected.message), "{shown}");
                        failed += 1;
                    }
                    (expected, got) => panic!("{got:?} instead of {expected:?}\n{shown}"),
                }
            }
        }
        eprintln!(
            "{same} runs with the same rows ({with_rows} with some, {in_order} in the same order), {failed} that fail \
             alike"
        );
        assert!(with_rows > 20);
    });
}
