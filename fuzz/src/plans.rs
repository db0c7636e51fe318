//! What must hold for any bytes that come to a worker as a plan.
//!
//! A plan names segments by source, id and checksum, which are others each time. Inputs have placeholders instead, of the same
//! length ([`SOURCE_PLACEHOLDER`], [`PLACEHOLDERS`] and [`checksum_placeholder`]), which are replaced before the plan is decoded. The lengths of
//! the segments are the same each time.
#![expect(clippy::expect_used, reason = "a world that cannot be made ends the run")]

use std::cell::Cell;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as EngineResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use serde_json::json;
use tidegate_cluster::{LocalLeaves, PlanError, decode, encode, held_segments};
use tidegate_model::Arguments;
use tidegate_sql::{Binding, Carried, Carrier, Engine, EngineOptions, Sources};
use tidegate_store::{HeldSegments, ScanDescription, Store, StoreOptions};

/// The id of the source in inputs.
const SOURCE_PLACEHOLDER: [u8; 16] = *b"tidegate-source1";
/// The ids of the segments in inputs, in the order in which the segments were made.
const PLACEHOLDERS: [[u8; 16]; 2] = [*b"tidegate-segmen1", *b"tidegate-segmen2"];

/// The statements whose plans are the corpus, by the name of their file.
const STATEMENTS: [(&str, &str); 12] = [
    ("newest", "SELECT id, timestamp, event_message FROM t ORDER BY timestamp DESC LIMIT 3"),
    (
        "groups",
        "SELECT COUNT(*) AS c, SUM(n) AS s, ARRAY_AGG(event_message ORDER BY id LIMIT 2) AS l FROM t GROUP BY MOD(n, 3)",
    ),
    (
        "texts",
        "SELECT UPPER(event_message) AS u FROM t WHERE REGEXP_CONTAINS(event_message, r'ro+w') AND n IN (1, 2, 3, 5, 8)",
    ),
    ("unnest", "SELECT id, tag FROM t CROSS JOIN UNNEST(t.tags) AS tag WITH OFFSET AS o WHERE o > 0"),
    ("exists", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.tags) AS tag WHERE tag = 'b')"),
    ("join", "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id AND a.n < b.n + 1"),
    ("left", "SELECT a.id, b.n FROM t AS a LEFT JOIN t AS b ON a.n > b.n ORDER BY a.id LIMIT 5"),
    ("window", "SELECT id, ROW_NUMBER() OVER (PARTITION BY n ORDER BY timestamp) AS r FROM t"),
    ("shared", "WITH s AS (SELECT n, id FROM t) SELECT (SELECT COUNT(*) FROM s) AS c, (SELECT MAX(n) FROM s) AS m"),
    (
        "case",
        "SELECT CASE WHEN n > 3 THEN 'x' ELSE TO_JSON_STRING(tags) END AS v, TIMESTAMP_TRUNC(timestamp, HOUR) AS h FROM t",
    ),
    ("union", "SELECT DISTINCT n FROM t UNION ALL SELECT n FROM t WHERE n > 100 LIMIT 7"),
    (
        "values",
        "SELECT APPROX_QUANTILES(n, 4) AS q, COUNT(DISTINCT id) AS d, ANY_VALUE(event_message) AS a, MAX(timestamp) AS m FROM t",
    ),
];

/// Operators of the list that plans may have. A scan of segments is none of them.
const NAMES: [&str; 27] = [
    "AggregateExec",
    "BoundedWindowAggExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "EmptyExec",
    "FilterExec",
    "GlobalLimitExec",
    "HashJoinExec",
    "InterleaveExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "ScalarSubqueryExec",
    "SecurityBarrier",
    "SharedRows",
    "SortExec",
    "SortExec(TopK)",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "SourceUnion",
    "UnionExec",
    "UnnestExec",
    "Unordered",
    "WindowAggExec",
];

struct One(Arc<dyn TableProvider>);

impl Sources for One {
    fn table(&self, _: &str) -> Option<Arc<dyn TableProvider>> {
        Some(Arc::clone(&self.0))
    }
    fn names(&self) -> Vec<String> {
        vec!["t".to_owned()]
    }
}

/// A plan, and what it was to run with.
type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// Keeps the plans that pass.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Planned>>);

impl Carrier for Kept {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> EngineResult<Carried> {
        let context = TaskContext::default().with_session_config(task.session_config().clone());
        let context = Arc::new(context.with_runtime(task.runtime_env()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::clone(&plan), context));
        Ok(plan.into())
    }
}

/// What a worker holds.
struct Held {
    segments: HeldSegments,
    context: Arc<TaskContext>,
    /// What stands in inputs, and what stands for it in plans: of the same length.
    replacements: Vec<(Vec<u8>, Vec<u8>)>,
    /// The plans of the statements, with the ids of the segments.
    plans: Vec<(&'static str, Vec<u8>)>,
    _store: Arc<Store>,
    _folder: tempfile::TempDir,
}

impl Held {
    fn shared() -> &'static Self {
        static SHARED: OnceLock<Held> = OnceLock::new();
        SHARED.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // A few checksums are too small to have the length of the others.
            let is_usable = |held: &Self| held.replacements.iter().all(|(own, other)| own.len() == other.len());
            std::iter::repeat_with(|| runtime.block_on(Self::made())).find(is_usable).expect("segments")
        })
    }

    async fn made() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = StoreOptions { durable: false, manual_flush: true, ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("data"), options).expect("a store");
        store.create_source("t").expect("a source");
        for part in 0..PLACEHOLDERS.len() {
            let rows = (0..20).map(|n| {
                json!({"id": format!("{part}{n}"), "timestamp": 1_763_600_000_000_000_i64 + n * 1_000_000,
                       "event_message": format!("row {n}"), "n": n, "tags": ["a", "b"]})
            });
            // The first segment has one row fewer, which tells it from the second.
            store.ingest("t", rows.skip(1 - part.min(1)).collect()).await.expect("rows are stored");
            store.flush().await.expect("a segment is written");
        }
        let kept = Arc::new(Kept::default());
        let options = EngineOptions { partitions: 2, narrow: tidegate_store::narrowed, ..EngineOptions::default() };
        let engine = Engine::new(&options).expect("an engine").with_carrier(Arc::clone(&kept) as _);
        let (sources, arguments) = (One(store.table("t").expect("a table")), Arguments::new());
        for (_, sql) in STATEMENTS {
            let plan = engine.plan(sql, Binding::new(&sources, &arguments, 1_763_633_702_000_000));
            drop(engine.run(plan.expect("a plan"), Some(100)).await.expect("a statement"));
        }
        let kept = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut segments, mut names, mut plans) = (HeldSegments::default(), Vec::new(), Vec::new());
        let mut context = None;
        for ((name, _), (plan, task)) in STATEMENTS.iter().zip(kept) {
            segments.extend(held_segments(&plan));
            let encoded = encode(&plan, task.session_config().options(), None).expect("bytes");
            names.extend(encoded.segments.into_iter().map(|(_, name)| name));
            plans.push((*name, encoded.bytes));
            context = Some(task);
        }
        names.sort_unstable_by_key(|name| name.rows);
        names.dedup();
        let source = names.first().map(|name| name.source.as_bytes().to_vec()).unwrap_or_default();
        let mut replacements = vec![(SOURCE_PLACEHOLDER.to_vec(), source)];
        for (number, (name, id)) in names.iter().zip(PLACEHOLDERS).enumerate() {
            replacements.push((id.to_vec(), name.id.as_bytes().to_vec()));
            replacements.push((checksum_placeholder(number), varint(name.checksum.expect("a checksum"))));
        }
        let context = context.expect("a statement");
        Self { segments, context, replacements, plans, _store: store, _folder: folder }
    }

    /// An input with what stands in plans.
    fn plan(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        self.replacements.iter().for_each(|(own, other)| replace(&mut bytes, own, other));
        bytes
    }

    /// A plan with what stands in inputs.
    fn input(&self, plan: &[u8]) -> Vec<u8> {
        let mut bytes = plan.to_vec();
        self.replacements.iter().for_each(|(own, other)| replace(&mut bytes, other, own));
        bytes
    }
}

/// What stands for the checksum of a segment in inputs.
fn checksum_placeholder(segment: usize) -> Vec<u8> {
    varint(u32::MAX - u32::try_from(segment).unwrap_or_default())
}

/// A number as messages have it.
fn varint(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

/// Replaces what is equal to `from` by `to`, which is as long.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let Some(last) = bytes.len().checked_sub(from.len()) else { return };
    for place in 0..=last {
        if let Some(window) = bytes.get_mut(place..place + from.len()).filter(|window| *window == from) {
            window.copy_from_slice(to);
        }
    }
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Decodes without a word where a constructor of the engine gives up: that is refused as everything else is.
fn decoded(held: &Held, bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>, PlanError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                before(panic);
            }
        }));
    });
    DECODING.set(true);
    let plan = decode(bytes, &held.segments, &held.context, &LocalLeaves::default());
    DECODING.set(false);
    plan
}

/// Any bytes are refused, or are a plan of operators that may run on a worker, over the segments that it holds.
pub fn plans(input: &[u8]) {
    let held = Held::shared();
    let plan = match decoded(held, &held.plan(input)) {
        Ok(plan) => plan,
        Err(PlanError::Refused(why)) => {
            assert!(!why.trim().is_empty() && why.len() < 1 << 20, "a refusal of {} bytes", why.len());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let options = held.context.session_config().options();
    let walked = plan.apply(|operator| {
        let is_scan = ScanDescription::of(operator.as_ref(), options).is_some();
        assert!(is_scan || NAMES.contains(&operator.name()), "{} may not run", operator.name());
        Ok(TreeNodeRecursion::Continue)
    });
    assert!(walked.is_ok(), "{walked:?}");
    assert!(held_segments(&plan).len() <= held.segments.len());
    // What one side takes, the other side can send: the same plan, or it says that it cannot.
    if let Ok(again) = encode(&plan, options, None) {
        let twice = decoded(held, &again.bytes);
        assert!(twice.is_ok(), "a plan is refused after it was encoded again: {twice:?}");
    }
}

/// The plans of the corpus as they are now, with the names of their files.
pub fn plan_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let held = Held::shared();
    held.plans.iter().map(|(name, bytes)| (*name, held.input(bytes))).collect()
}

/// Whether an input is a plan.
pub fn is_plan(input: &[u8]) -> bool {
    let held = Held::shared();
    decoded(held, &held.plan(input)).is_ok()
}
