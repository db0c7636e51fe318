//! Boundaries of stages as messages: those of `datafusion-distributed`, which are looked at before they are decoded.
//!
//! The messages here mirror the parts of its own that are numbers and addresses. Its decoder trusts them.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::DistributedCodec;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{Partitioning, PhysicalExprNode, PhysicalPlanNode};
use prost::{Message, Oneof};
use url::Url;

use crate::bounds::{MAX_PARTITIONS, MAX_TASKS};
use crate::error::refused;
use crate::function_codec::FunctionCodec;
use crate::operator_check;
use crate::worker_url::{place_of, url_of};

#[derive(Clone, PartialEq, Message)]
struct BoundaryMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 5, 6")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Shuffle(InputMessage),
    #[prost(message, tag = "2")]
    Coalesce(InputMessage),
    #[prost(message, tag = "5")]
    Broadcast(InputMessage),
    #[prost(message, tag = "6")]
    Copies(CopiesMessage),
}

#[derive(Clone, PartialEq, Message)]
struct InputMessage {
    #[prost(message, optional, tag = "1")]
    schema: Option<datafusion_proto::protobuf::Schema>,
    #[prost(message, optional, tag = "2")]
    partitioning: Option<Partitioning>,
    #[prost(message, optional, tag = "3")]
    stage: Option<StageMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct StageMessage {
    #[prost(bytes = "vec", tag = "1")]
    statement: Vec<u8>,
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(message, repeated, tag = "3")]
    tasks: Vec<TaskMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct TaskMessage {
    #[prost(string, optional, tag = "1")]
    worker: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct CopiesMessage {
    #[prost(uint64, tag = "1")]
    tasks: u64,
}

/// A boundary, or the operator that copies rows for one, as a message. The tasks of a stage that has no workers yet are
/// given the first ones, so that the message can be tried.
///
/// # Errors
/// Those of the codec.
pub(crate) fn encoded(
    plan: &Arc<dyn ExecutionPlan>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    DistributedCodec.try_encode(Arc::clone(plan), &mut bytes, &OwnFunctions(converter))?;
    let Ok(mut message) = BoundaryMessage::decode(bytes.as_slice()) else {
        return refused("a boundary cannot be read");
    };
    let Some(Kind::Shuffle(input) | Kind::Coalesce(input) | Kind::Broadcast(input)) = &mut message.kind else {
        return Ok(bytes);
    };
    for (place, task) in input.stage.iter_mut().flat_map(|stage| &mut stage.tasks).enumerate() {
        if task.worker.is_none() {
            task.worker = Some(url_of(place)?.to_string());
        }
    }
    Ok(message.encode_to_vec())
}

/// The boundary that a message is of.
///
/// # Errors
/// If it is none that may be here.
pub(crate) fn decoded(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    task: &TaskContext,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let message = BoundaryMessage::decode(bytes).ok().and_then(|message| message.kind);
    match (message, inputs.len()) {
        (Some(Kind::Shuffle(input) | Kind::Coalesce(input) | Kind::Broadcast(input)), 0) => allowed(&input)?,
        (Some(Kind::Copies(CopiesMessage { tasks })), 1) if (1..=MAX_TASKS as u64).contains(&tasks) => {}
        _ => return refused("a boundary cannot be read"),
    }
    let plan = DistributedCodec.try_decode(bytes, inputs, task, &OwnFunctions(converter))?;
    operator_check::consistent(plan.as_ref())?;
    Ok(plan)
}

fn allowed(input: &InputMessage) -> Result<()> {
    operator_check::partitions(input.partitioning.as_ref())?;
    let Some(StageMessage { statement, number, tasks }) = &input.stage else {
        return refused("a boundary has no stage");
    };
    let is_worker = |task: &TaskMessage| {
        let url = task.worker.as_ref().and_then(|worker| Url::parse(worker).ok());
        url.as_ref().and_then(place_of).is_some_and(|place| place < MAX_TASKS)
    };
    let is_whole = statement.len() == 16
        && *number <= MAX_PARTITIONS as u64
        && (1..=MAX_TASKS).contains(&tasks.len())
        && tasks.iter().all(is_worker);
    if is_whole { Ok(()) } else { refused("the stage of a boundary is out of bounds") }
}

/// A converter that is called with the codec of the library, which knows no function of ours.
struct OwnFunctions<'c>(&'c dyn PhysicalProtoConverterExtension);

impl PhysicalProtoConverterExtension for OwnFunctions<'_> {
    fn proto_to_execution_plan(
        &self,
        _: &PhysicalPlanNode,
        _: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        refused("an operator stands in a boundary")
    }

    fn execution_plan_to_proto(
        &self,
        _: &Arc<dyn ExecutionPlan>,
        _: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        refused("an operator stands in a boundary")
    }

    fn proto_to_physical_expr(
        &self,
        node: &PhysicalExprNode,
        columns: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let context = PhysicalPlanDecodeContext::new(context.task_ctx(), &FunctionCodec);
        self.0.proto_to_physical_expr(node, columns, &context)
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        _: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        self.0.physical_expr_to_proto(expr, &FunctionCodec)
    }
}
