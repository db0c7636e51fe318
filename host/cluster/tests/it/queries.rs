//! The saved queries of the endpoints in this tree and the questions of the benchmark give the same rows whether their
//! plans travel or not, over sources of which some rows lie in segments and some in memory.

#[path = "shipped/mod.rs"]
mod shipped;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result as EngineResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use shipped::{Logs, logs, queries, rows};
use tidegate_cluster::{LocalLeaves, PlanError, decode, encode};
use tidegate_sql::{Carried, Carrier, Engine, EngineOptions, SavedQuery};
use tidegate_store::{HeldSegments, Store};

/// Encodes and decodes plans, over the segments that the store has under the names in the plan.
#[derive(Debug)]
struct OverStore {
    store: Arc<Store>,
    travelled: AtomicUsize,
    stayed: AtomicUsize,
    most_bytes: AtomicUsize,
}

impl Carrier for OverStore {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> EngineResult<Carried> {
        let mut leaves = LocalLeaves::default();
        let encoded = match encode(&plan, task.session_config().options(), Some(&mut leaves)) {
            Ok(encoded) => encoded,
            Err(PlanError::Unsendable(why)) => {
                eprintln!("stays: {why}");
                self.stayed.fetch_add(1, Ordering::Relaxed);
                return Ok(plan.into());
            }
            Err(error) => panic!("{error}"),
        };
        self.most_bytes.fetch_max(encoded.bytes.len(), Ordering::Relaxed);
        let mut named: BTreeMap<Arc<str>, Vec<_>> = BTreeMap::new();
        for (source, segment) in encoded.segments {
            named.entry(source).or_default().push(segment.id);
        }
        let mut held = HeldSegments::default();
        for (source, ids) in named {
            held.extend(self.store.hold_segments(&source, &ids).unwrap());
        }
        let again = decode(&encoded.bytes, &held, task, &leaves).unwrap_or_else(|error| panic!("{error}"));
        self.travelled.fetch_add(1, Ordering::Relaxed);
        Ok(again.into())
    }
}

#[test]
fn queries_give_the_same_rows() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let store = logs(&folder.path().join("data")).await;
        let carrier = Arc::new(OverStore {
            store: Arc::clone(&store),
            travelled: AtomicUsize::new(0),
            stayed: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(0),
        });
        let sources = Logs(store);
        let options = |partitions| EngineOptions {
            partitions,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let (mut same, mut with_rows, mut failed) = (0, 0, 0);
        for (saved, sql, arguments) in queries() {
            let shown = sql.as_deref().unwrap_or(&saved);
            let parsed = SavedQuery::parse(&saved).expect("a saved query");
            let plain = Engine::new(&options(1)).unwrap();
            let expected = rows(&plain, &sources, &parsed, sql.as_deref(), &arguments).await;
            for partitions in [1, 3] {
                let carried = Engine::new(&options(partitions)).unwrap().with_carrier(Arc::clone(&carrier) as _);
                let got = rows(&carried, &sources, &parsed, sql.as_deref(), &arguments).await;
                match (&expected, got) {
                    (Ok(expected), Ok(mut got)) => {
                        let mut expected = expected.clone();
                        // Without an order, and with a limit, several partitions may give other rows.
                        if partitions == 1 {
                            expected.sort();
                            got.sort();
                            assert_eq!(got, expected, "{shown}");
                        } else {
                            assert_eq!(got.len(), expected.len(), "{shown}");
                        }
                        same += 1;
                        with_rows += usize::from(!expected.is_empty());
                    }
                    (Err(expected), Err(got)) => {
                        assert_eq!(got.message, expected.message, "{shown}");
                        failed += 1;
                    }
                    (expected, got) => panic!("{got:?} instead of {expected:?}\n{shown}"),
                }
            }
        }
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (travelled, stayed, bytes) =
            (count(&carrier.travelled), count(&carrier.stayed), count(&carrier.most_bytes));
        eprintln!(
            "{same} runs with the same rows ({with_rows} with some), {failed} that fail alike; {travelled} plans \
             travelled, {stayed} stayed; the largest has {bytes} bytes"
        );
        // What is compared must have rows, and must have travelled.
        assert!(with_rows > 20 && travelled >= 40 && stayed == 0);
    });
}
