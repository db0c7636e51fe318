//! What comes from elsewhere is refused unless it is a plan that may run here: bytes that were cut or changed, and plans
//! made by hand that read files, write them, or read what the task does not name.

use std::sync::{Arc, Mutex};

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as EngineResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{self, PhysicalExtensionNode, PhysicalPlanNode};
use proptest::prelude::*;
use prost::Message;
use serde_json::json;
use tidegate_model::Arguments;
use tidegate_sql::{Binding, Carried, Carrier, Engine, EngineOptions, Sources};
use tidegate_store::{HeldSegments, ScanDescription, Store, StoreOptions};

use crate::bounds::MAX_DEPTH;
use crate::message::{OwnKind, OwnMessage, PartMessage, PlanMessage, SharedRowsMessage, VERSION};
use crate::{LocalLeaves, PlanError, decode, encode, held_segments};

const STATEMENTS: [&str; 10] = [
    "SELECT id, timestamp, event_message FROM t ORDER BY timestamp DESC LIMIT 3",
    "SELECT COUNT(*) AS c, SUM(n) AS s, ARRAY_AGG(event_message ORDER BY id LIMIT 2) AS l FROM t GROUP BY MOD(n, 3)",
    "SELECT UPPER(event_message) AS u FROM t WHERE REGEXP_CONTAINS(event_message, r'ro+w') AND n IN (1, 2, 3, 5, 8)",
    "SELECT id, tag FROM t CROSS JOIN UNNEST(t.tags) AS tag WITH OFFSET AS o WHERE o > 0",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.tags) AS tag WHERE tag = 'b')",
    "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id AND a.n < b.n + 1",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY n ORDER BY timestamp) AS r FROM t",
    "WITH s AS (SELECT n, id FROM t) SELECT (SELECT COUNT(*) FROM s) AS c, (SELECT MAX(n) FROM s) AS m",
    "SELECT CASE WHEN n > 3 THEN 'x' ELSE TO_JSON_STRING(tags) END AS v, TIMESTAMP_TRUNC(timestamp, HOUR) AS h FROM t",
    "SELECT DISTINCT n FROM t UNION ALL SELECT n FROM t WHERE n > 100 LIMIT 7",
];

/// The operators of the list that these plans may have, or have after a change. A scan of segments is none of them.
const NAMES: [&str; 25] = [
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
        self.0.lock().unwrap().push((Arc::clone(&plan), Arc::new(context.with_runtime(task.runtime_env()))));
        Ok(plan.into())
    }
}

/// Plans over segments as bytes, with what they are decoded with.
struct Plans {
    bytes: Vec<Vec<u8>>,
    held: HeldSegments,
    task: Arc<TaskContext>,
    _store: Arc<Store>,
    _folder: tempfile::TempDir,
}

impl Plans {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let options = StoreOptions { durable: false, ..StoreOptions::default() };
            let store = Store::open(&folder.path().join("data"), options).unwrap();
            store.create_source("t").unwrap();
            for part in 0..2 {
                let rows = (0..20).map(|n| {
                    json!({"id": format!("{part}{n}"), "timestamp": 1_763_600_000_000_000_i64 + n * 1_000_000,
                           "event_message": format!("row {n}"), "n": n, "tags": ["a", "b"]})
                });
                store.ingest("t", rows.collect()).await.unwrap();
                store.flush().await.unwrap();
            }
            let kept = Arc::new(Kept::default());
            let options = EngineOptions { partitions: 2, narrow: tidegate_store::narrowed, ..EngineOptions::default() };
            let engine = Engine::new(&options).unwrap().with_carrier(Arc::clone(&kept) as _);
            let (sources, arguments) = (One(store.table("t").unwrap()), Arguments::new());
            for sql in STATEMENTS {
                let plan = engine.plan(sql, Binding::new(&sources, &arguments, 1_763_633_702_000_000)).unwrap();
                drop(engine.run(plan, Some(100)).await.unwrap());
            }
            let kept = std::mem::take(&mut *kept.0.lock().unwrap());
            let mut held = HeldSegments::default();
            let mut bytes = Vec::new();
            for (plan, task) in &kept {
                held.extend(held_segments(plan));
                bytes.push(encode(plan, task.session_config().options(), None).unwrap().bytes);
            }
            Self { bytes, held, task: Arc::clone(&kept[0].1), _store: store, _folder: folder }
        })
    }

    fn decode(&self, bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>, PlanError> {
        decode(bytes, &self.held, &self.task, &LocalLeaves::default())
    }

    fn why(&self, message: &PlanMessage) -> String {
        match self.decode(&message.encode_to_vec()) {
            Err(PlanError::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn plan_of(operators: Vec<PhysicalPlanNode>) -> PlanMessage {
    let operators: Vec<_> = operators.iter().map(Message::encode_to_vec).collect();
    let count = u32::try_from(operators.len()).unwrap();
    PlanMessage { version: VERSION, operators, expressions: Vec::new(), parts: Vec::new(), count }
}

fn node(operator: PhysicalPlanType) -> PhysicalPlanNode {
    PhysicalPlanNode { physical_plan_type: Some(operator) }
}

fn own(kind: OwnKind, inputs: Vec<PhysicalPlanNode>) -> PhysicalPlanNode {
    let node = OwnMessage { kind: Some(kind) }.encode_to_vec();
    self::node(PhysicalPlanType::Extension(PhysicalExtensionNode { node, inputs }))
}

fn place(place: u32) -> PhysicalPlanNode {
    own(OwnKind::Place(place), Vec::new())
}

fn schema() -> protobuf::Schema {
    (&Schema::new(vec![datafusion::arrow::datatypes::Field::new("n", DataType::Int64, true)])).try_into().unwrap()
}

fn empty(partitions: u32) -> PhysicalPlanNode {
    node(PhysicalPlanType::Empty(protobuf::EmptyExecNode { schema: Some(schema()), partitions }))
}

#[test]
fn plans_that_were_cut_are_refused() {
    let plans = Plans::new();
    for bytes in &plans.bytes {
        assert!(plans.decode(bytes).is_ok());
        for end in (0..bytes.len()).step_by(bytes.len() / 150 + 1) {
            assert!(plans.decode(&bytes[..end]).is_err(), "the first {end} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn plans_that_were_changed_are_plans_of_the_list_or_refused() {
    let plans = Plans::new();
    let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    let seed = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(config, seed);
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..4);
    runner
        .run(&(any::<prop::sample::Index>(), changes), |(which, changes)| {
            let mut bytes = which.get(&plans.bytes).clone();
            for (place, bit) in changes {
                let place = place.index(bytes.len());
                bytes[place] ^= 1 << bit;
            }
            if let Ok(plan) = plans.decode(&bytes) {
                let mut others = Vec::new();
                plan.apply(|operator| {
                    let scan = ScanDescription::of(operator.as_ref(), plans.task.session_config().options());
                    if !NAMES.contains(&operator.name()) && scan.is_none() {
                        others.push(operator.name().to_owned());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
                .unwrap();
                prop_assert!(others.is_empty(), "{others:?}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn files_and_what_writes_them_are_refused() {
    let plans = Plans::new();
    let listed = "the plan has an operator that may not run here";
    let sink = protobuf::CsvSinkExecNode { input: Some(Box::new(place(0))), ..Default::default() };
    let parquet = protobuf::ParquetSinkExecNode { input: Some(Box::new(place(0))), ..Default::default() };
    for operator in [
        PhysicalPlanType::CsvScan(Default::default()),
        PhysicalPlanType::JsonScan(Default::default()),
        PhysicalPlanType::ParquetScan(Default::default()),
        PhysicalPlanType::AvroScan(Default::default()),
        PhysicalPlanType::ArrowScan(Default::default()),
        PhysicalPlanType::MemoryScan(Default::default()),
        PhysicalPlanType::GenerateSeries(Default::default()),
        PhysicalPlanType::Explain(Default::default()),
        PhysicalPlanType::Analyze(Default::default()),
        PhysicalPlanType::CsvSink(Box::new(sink)),
        PhysicalPlanType::ParquetSink(Box::new(parquet)),
    ] {
        assert_eq!(plans.why(&plan_of(vec![empty(1), node(operator)])), listed);
    }
    // Also below an operator of ours, and not as a message within a message.
    let scan = node(PhysicalPlanType::CsvScan(Default::default()));
    let below = own(OwnKind::Barrier(true), vec![place(0)]);
    assert_eq!(plans.why(&plan_of(vec![scan.clone(), below])), listed);
    let within = own(OwnKind::Barrier(true), vec![scan]);
    assert_eq!(plans.why(&plan_of(vec![within])), "an operator stands in another one");
}

#[test]
fn segments_that_the_task_does_not_name_are_refused() {
    let plans = Plans::new();
    let scans = plans.bytes.iter().filter(|bytes| {
        let refused = decode(bytes, &HeldSegments::default(), &plans.task, &LocalLeaves::default());
        matches!(refused, Err(PlanError::Refused(why)) if why.contains("is not held"))
    });
    assert_eq!(scans.count(), STATEMENTS.len());
    let leaf = own(OwnKind::Local(0), Vec::new());
    assert_eq!(plans.why(&plan_of(vec![leaf])), "it reads rows that are not here");
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let plans = Plans::new();
    let twice = own(OwnKind::SourceUnion(true), vec![place(0), place(0)]);
    assert_eq!(plans.why(&plan_of(vec![empty(1), twice])), "an operator is not there, or is read twice");
    let itself = own(OwnKind::Barrier(true), vec![place(0)]);
    assert_eq!(plans.why(&plan_of(vec![itself])), "an operator is not there, or is read twice");
    assert_eq!(plans.why(&plan_of(vec![empty(1), empty(1)])), "it has parts that nothing reads");
    assert_eq!(plans.why(&plan_of(vec![empty(100_000)])), "a size in the plan is out of bounds");
    let rows = own(OwnKind::SharedRows(SharedRowsMessage { part: 1, reader: 0 }), Vec::new());
    let mut shared = plan_of(vec![rows.clone(), rows]);
    shared.parts.push(PartMessage { part: 1, operator: 0 });
    assert_eq!(plans.why(&shared), "a shared part is not there");
    assert_eq!(
        plans.why(&PlanMessage { version: VERSION + 1, ..plan_of(vec![empty(1)]) }),
        "it is of version 2, not 1"
    );
    let deep = std::iter::once(empty(1));
    let deep = deep.chain((0..u32::try_from(MAX_DEPTH).unwrap()).map(|n| own(OwnKind::Barrier(true), vec![place(n)])));
    assert_eq!(plans.why(&plan_of(deep.collect())), "it is nested too deep");
    assert!(plans.decode(&plan_of(vec![empty(1)]).encode_to_vec()).is_ok());
}

/// `sum` of ours adds up whole numbers and fails where they are too large; the engine's wraps around.
#[test]
fn functions_of_one_name_are_not_mixed_up() {
    use crate::function_codec::FunctionCodec;
    use datafusion_proto::physical_plan::PhysicalExtensionCodec;

    let codec = FunctionCodec;
    for function in [tidegate_functions::aggregate::whole_sum(), datafusion::functions_aggregate::sum::sum_udaf()] {
        assert_eq!(function.name(), "sum");
        let mut bytes = Vec::new();
        codec.try_encode_udaf(&function, &mut bytes).unwrap();
        assert_eq!(codec.try_decode_udaf("sum", &bytes).unwrap(), function);
    }
    // By its name alone, none is found.
    assert!(codec.try_decode_udaf("sum", &[]).is_err());
    assert!(codec.try_decode_udf("upper", &[]).is_err());
    let median = datafusion::functions_aggregate::median::median_udaf();
    assert!(codec.try_encode_udaf(&median, &mut Vec::new()).is_err());
    let unknown = crate::function_message::ScalarMessage {
        kind: Some(crate::function_message::ScalarKind::Engine("read_file".to_owned())),
    };
    assert!(codec.try_decode_udf("read_file", &unknown.encode_to_vec()).is_err());
}

#[test]
fn what_a_message_cannot_say_is_not_sent() {
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};

    let rows = || Arc::new(EmptyExec::new(Arc::new(Schema::empty()))) as Arc<dyn ExecutionPlan>;
    let large = u32::MAX as usize + 1;
    let options = datafusion::common::config::ConfigOptions::default();
    let sent = |plan: Arc<dyn ExecutionPlan>| encode(&plan, &options, None).is_ok();
    for (fits, rows_of) in [(true, 7), (true, u32::MAX as usize), (false, large)] {
        assert_eq!(sent(Arc::new(LocalLimitExec::new(rows(), rows_of))), fits);
        assert_eq!(sent(Arc::new(CoalescePartitionsExec::new(rows()).with_fetch(Some(rows_of)))), fits);
        assert_eq!(sent(Arc::new(GlobalLimitExec::new(rows(), rows_of, Some(1)))), fits);
        assert!(sent(Arc::new(GlobalLimitExec::new(rows(), 0, Some(rows_of)))));
    }
    assert!(!sent(Arc::new(GlobalLimitExec::new(rows(), 0, Some(usize::MAX)))));
}
