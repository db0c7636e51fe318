//! What comes from elsewhere is refused unless it is a plan that may run here: bytes that were cut or changed, and plans
//! made by hand that read files, write them, or read what the task does not name.

#[path = "../tests/it/samples/mod.rs"]
pub(crate) mod samples;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::arrow::ipc::CompressionType;
use datafusion::arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{self, PhysicalExtensionNode, PhysicalPlanNode};
use datafusion_proto_common::protobuf_common::scalar_value::Value;
use datafusion_proto_common::protobuf_common::{ScalarDictionaryValue, ScalarFixedSizeBinary, ScalarNestedValue};
use proptest::prelude::*;
use prost::Message;
use tidegate_store::{HeldSegments, ScanDescription, Store};

use samples::{NAMES, STATEMENTS, Samples};

use crate::bounds::MAX_DEPTH;
use crate::message::{OwnKind, OwnMessage, PartMessage, PlanMessage, SharedRowsMessage, VERSION};
use crate::{LocalLeaves, PlanError, decode, encode, held_segments};

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
        let Samples { plans, store, folder } = runtime.block_on(Samples::made());
        let mut held = HeldSegments::default();
        let mut bytes = Vec::new();
        for (plan, task) in &plans {
            held.extend(held_segments(plan));
            bytes.push(encode(plan, task.session_config().options(), None).unwrap().bytes);
        }
        Self { bytes, held, task: Arc::clone(&plans[0].1), _store: store, _folder: folder }
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
    (&Schema::new(vec![Field::new("n", DataType::Int64, true)])).try_into().unwrap()
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
    let rows = own(OwnKind::SharedRows(SharedRowsMessage { part: 1, reader: 0, once: false }), Vec::new());
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

/// A plan of one literal, as the decoder of the engine has it.
fn plan_of_literal(value: Value) -> PlanMessage {
    let literal = protobuf::PhysicalExprNode {
        expr_id: None,
        expr_type: Some(ExprType::Literal(protobuf::ScalarValue { value: Some(value) })),
    };
    let projection = protobuf::ProjectionExecNode {
        input: Some(Box::new(place(0))),
        expr: vec![literal],
        expr_name: vec!["x".to_owned()],
    };
    plan_of(vec![empty(1), node(PhysicalPlanType::Projection(Box::new(projection)))])
}

/// A list of numbers as the message of a literal has it, compressed or not.
fn list_literal(compression: Option<CompressionType>) -> ScalarNestedValue {
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(7_i64); 1000])]));
    let batch = RecordBatch::try_from_iter([("item", list)]).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let (mut dictionaries, mut context) = (DictionaryTracker::new(true), IpcWriteContext::default());
    let encoded = IpcDataGenerator::default().encode(&batch, &mut dictionaries, &options, &mut context).unwrap().1;
    ScalarNestedValue {
        ipc_message: encoded.ipc_message,
        arrow_data: encoded.arrow_data,
        schema: Some(batch.schema().as_ref().try_into().unwrap()),
        dictionaries: Vec::new(),
    }
}

/// Each of these would allocate a number of bytes that the message says and does not have.
#[test]
fn literals_that_say_more_than_they_have_are_refused() {
    let plans = Plans::new();
    let whole = plan_of_literal(Value::ListValue(list_literal(None)));
    assert!(plans.decode(&whole.encode_to_vec()).is_ok());
    let mut packed = list_literal(Some(CompressionType::LZ4_FRAME));
    let length = packed.arrow_data.windows(8).position(|bytes| bytes == 8000_u64.to_le_bytes()).unwrap();
    packed.arrow_data[length..length + 8].copy_from_slice(&(1_u64 << 46).to_le_bytes());
    let compressed = "the values of a literal cannot be read: they are compressed";
    assert_eq!(plans.why(&plan_of_literal(Value::ListValue(packed.clone()))), compressed);
    let inner = protobuf::ScalarValue { value: Some(Value::StructValue(packed)) };
    let dictionary =
        ScalarDictionaryValue { index_type: Some((&DataType::Int8).try_into().unwrap()), value: Some(Box::new(inner)) };
    assert_eq!(plans.why(&plan_of_literal(Value::DictionaryValue(Box::new(dictionary)))), compressed);
    let cut = list_literal(None);
    let cut = ScalarNestedValue { arrow_data: cut.arrow_data[..1000].to_vec(), ..cut };
    assert!(plans.why(&plan_of_literal(Value::ListValue(cut))).contains("outside of their bytes"));
    let bytes = ScalarFixedSizeBinary { values: vec![1; 16], length: i32::MAX };
    let longer = "a literal has another length than its type";
    assert_eq!(plans.why(&plan_of_literal(Value::FixedSizeBinaryValue(bytes))), longer);
    let packed_id = ScalarFixedSizeBinary { values: vec![1; 16], length: 16 };
    assert!(plans.decode(&plan_of_literal(Value::FixedSizeBinaryValue(packed_id)).encode_to_vec()).is_ok());
}

/// One NULL of such a type is as long as the type says.
#[test]
fn types_of_a_great_length_are_refused() {
    let plans = Plans::new();
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    let lists = DataType::FixedSizeList(item, i32::MAX);
    let within = DataType::List(Arc::new(Field::new_list_field(lists.clone(), true)));
    for (of, why) in [
        (&lists, "lists of a fixed length may not be here"),
        (&within, "lists of a fixed length may not be here"),
        (&DataType::FixedSizeBinary(i32::MAX), "a type is longer than a value may be"),
        (&DataType::FixedSizeBinary(-1), "a type is longer than a value may be"),
    ] {
        assert_eq!(plans.why(&plan_of_literal(Value::NullValue(of.try_into().unwrap()))), why);
        let columns = Schema::new(vec![Field::new("n", of.clone(), true)]);
        let rows = protobuf::EmptyExecNode { schema: Some((&columns).try_into().unwrap()), partitions: 1 };
        assert_eq!(plans.why(&plan_of(vec![node(PhysicalPlanType::Empty(rows))])), why);
        let rows: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(columns)));
        assert!(encode(&rows, &datafusion::common::config::ConfigOptions::default(), None).is_err());
    }
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
