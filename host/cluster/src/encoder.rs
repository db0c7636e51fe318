//! A plan as bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{BroadcastExec, DistributedLeafExec, NetworkBoundaryExt};
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{
    PhysicalExprNode, PhysicalExtensionExprNode, PhysicalExtensionNode, PhysicalPlanNode,
};
use prost::Message;
use tidegate_sql::{OwnOperator, PartReader};
use tidegate_store::{ScanDescription, SegmentName, is_source_union};

use crate::bounds::{MAX_DEPTH, MAX_EXPRESSIONS, MAX_OPERATORS, MAX_PLAN_BYTES};
use crate::error::{PlanError, unsendable};
use crate::function_codec::FunctionCodec;
use crate::local_leaves::LocalLeaves;
use crate::message::{OwnKind, OwnMessage, PartMessage, PlanMessage, SharedRowsMessage, VERSION};
use crate::{boundary_codec, expr_check, operator_check, scan_codec};

/// A plan that can be sent.
#[derive(Debug, Clone)]
pub struct EncodedPlan {
    /// The plan.
    pub bytes: Vec<u8>,
    /// The segments that it reads, by the names of their sources.
    pub segments: Vec<(Arc<str>, SegmentName)>,
}

/// Encodes a plan as the engine of `tidegate-sql` hands it to a carrier. `options` are those of the session that planned
/// it. Operators without inputs that cannot be sent, such as scans of rows in memory, are kept in `leaves`; without it,
/// there must be none.
///
/// # Errors
/// [`PlanError::Unsendable`] if the plan has something that cannot be sent, or is too large.
pub fn encode(
    plan: &Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    leaves: Option<&mut LocalLeaves>,
) -> std::result::Result<EncodedPlan, PlanError> {
    encoded(plan, options, (leaves, SubqueryValues::Within))
}

/// What stands for the value of a subquery in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubqueryValues {
    /// The subquery is in the plan too.
    Within,
    /// The value that it has given: its plan has run elsewhere.
    Given,
    /// NULL: the plan does not run, and has to show that it can be sent.
    Pending,
}

/// Encodes the plan of a stage, with the values of subqueries that have run where the statement is.
///
/// # Errors
/// As [`encode`], and if a subquery has not given its value.
pub fn encode_stage(
    plan: &Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    leaves: &mut LocalLeaves,
) -> std::result::Result<EncodedPlan, PlanError> {
    encoded(plan, options, (Some(leaves), SubqueryValues::Given))
}

/// The same before the subqueries have run.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_pending(
    plan: &Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    leaves: &mut LocalLeaves,
) -> std::result::Result<EncodedPlan, PlanError> {
    encoded(plan, options, (Some(leaves), SubqueryValues::Pending))
}

fn encoded(
    plan: &Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
    (leaves, values): (Option<&mut LocalLeaves>, SubqueryValues),
) -> std::result::Result<EncodedPlan, PlanError> {
    let encoder = Encoder { options, state: RefCell::default(), keeps_leaves: leaves.is_some(), values };
    let encoded = encoder.execution_plan_to_proto(plan, &FunctionCodec);
    encoded.map_err(|error| PlanError::from_engine(&error, PlanError::Unsendable))?;
    let State { operators, expressions, parts, segments, kept, .. } = encoder.state.into_inner();
    let parts = parts.into_iter().map(|(part, operator)| PartMessage { part: part as u64, operator }).collect();
    // There are at most `MAX_OPERATORS`.
    let count = u32::try_from(operators.len()).unwrap_or(u32::MAX);
    let bytes = PlanMessage { version: VERSION, operators, expressions, parts, count }.encode_to_vec();
    if bytes.len() > MAX_PLAN_BYTES {
        return Err(PlanError::Unsendable(format!("it has {} bytes", bytes.len())));
    }
    if let Some(leaves) = leaves {
        leaves.plans = kept;
    }
    Ok(EncodedPlan { bytes, segments })
}

/// What was encoded so far.
#[derive(Default)]
struct State {
    operators: Vec<Vec<u8>>,
    expressions: Vec<Vec<u8>>,
    /// The places of the operators of shared parts.
    parts: BTreeMap<usize, u32>,
    segments: Vec<(Arc<str>, SegmentName)>,
    kept: Vec<Arc<dyn ExecutionPlan>>,
    depth: usize,
}

/// Every operator and every expression of a plan passes here.
struct Encoder<'o> {
    options: &'o ConfigOptions,
    state: RefCell<State>,
    keeps_leaves: bool,
    values: SubqueryValues,
}

impl Encoder<'_> {
    /// Goes one level down.
    fn deeper<T>(&self, walk: impl FnOnce() -> Result<T>) -> Result<T> {
        let depth = {
            let mut state = self.state.borrow_mut();
            state.depth += 1;
            state.depth
        };
        if depth > MAX_DEPTH {
            return unsendable("it is nested too deep");
        }
        let walked = stacker::maybe_grow(256 << 10, 4 << 20, walk);
        self.state.borrow_mut().depth -= 1;
        walked
    }

    fn operator(&self, plan: &Arc<dyn ExecutionPlan>, codec: &dyn PhysicalExtensionCodec) -> Result<PhysicalPlanNode> {
        if let Some(own) = OwnOperator::of(plan.as_ref()) {
            return match own {
                OwnOperator::Barrier(input) => {
                    Ok(extension(OwnKind::Barrier(true), vec![self.execution_plan_to_proto(&input, codec)?]))
                }
                OwnOperator::Attempt(input) => {
                    Ok(extension(OwnKind::Attempt(true), vec![self.execution_plan_to_proto(&input, codec)?]))
                }
                OwnOperator::Unordered(input) => {
                    Ok(extension(OwnKind::Unordered(true), vec![self.execution_plan_to_proto(&input, codec)?]))
                }
                OwnOperator::SharedRows { place: PartReader { part, reader, once }, input } => {
                    if !self.state.borrow().parts.contains_key(&part) {
                        self.execution_plan_to_proto(&input, codec)?;
                        let mut state = self.state.borrow_mut();
                        let place = last(&state.operators)?;
                        state.parts.insert(part, place);
                    }
                    let rows = SharedRowsMessage { part: part as u64, reader: reader as u64, once };
                    Ok(extension(OwnKind::SharedRows(rows), Vec::new()))
                }
            };
        }
        if is_source_union(plan.as_ref()) {
            let inputs = plan.children().into_iter().map(|child| self.execution_plan_to_proto(child, codec));
            return Ok(extension(OwnKind::SourceUnion(true), inputs.collect::<Result<_>>()?));
        }
        if let Some(scan) = ScanDescription::of(plan.as_ref(), self.options) {
            let scan = scan?;
            let message = scan_codec::encoded(&scan, |expr| self.physical_expr_to_proto(expr, codec))?;
            let segments = scan.segments.into_iter().map(|segment| (Arc::clone(&scan.source), segment));
            self.state.borrow_mut().segments.extend(segments);
            return Ok(extension(OwnKind::Scan(Box::new(message)), Vec::new()));
        }
        if let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>()
            && let Some(one) = leaf.variants().first()
        {
            return self.operator(one, codec);
        }
        if plan.is_network_boundary() || plan.is::<BroadcastExec>() {
            let message = boundary_codec::encoded(plan, self)?;
            // What is below a boundary is another stage.
            let inputs = plan.is::<BroadcastExec>().then(|| plan.children()).into_iter().flatten();
            let inputs = inputs.map(|child| self.execution_plan_to_proto(child, codec));
            return Ok(extension(OwnKind::Boundary(message), inputs.collect::<Result<_>>()?));
        }
        if plan.is::<datafusion::datasource::source::DataSourceExec>() {
            return self.leaf(plan);
        }
        operator_check::sendable(plan.as_ref())?;
        PhysicalPlanNode::try_from_physical_plan_with_converter(Arc::clone(plan), codec, self)
    }

    /// The value of a subquery, where it stands for it.
    fn value(&self, subquery: &ScalarSubqueryExpr) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let none = Arc::new(Schema::empty());
        let value = match self.values {
            SubqueryValues::Within => return Ok(None),
            SubqueryValues::Given => subquery.evaluate(&RecordBatch::new_empty(none))?,
            SubqueryValues::Pending => {
                ColumnarValue::Scalar(ScalarValue::try_new_null(subquery.return_field(&none)?.data_type())?)
            }
        };
        match value {
            ColumnarValue::Scalar(value) => Ok(Some(Arc::new(Literal::new(value)))),
            ColumnarValue::Array(_) => unsendable("a subquery has given several values"),
        }
    }

    fn leaf(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<PhysicalPlanNode> {
        if !self.keeps_leaves {
            return unsendable("it reads rows that are on this machine only");
        }
        let mut state = self.state.borrow_mut();
        state.kept.push(Arc::clone(plan));
        Ok(extension(OwnKind::Local(last(&state.kept)?), Vec::new()))
    }
}

/// The place of the last item.
fn last<T>(items: &[T]) -> Result<u32> {
    u32::try_from(items.len().saturating_sub(1)).or_else(|_| unsendable("it is too large"))
}

fn extension(kind: OwnKind, inputs: Vec<PhysicalPlanNode>) -> PhysicalPlanNode {
    let node = OwnMessage { kind: Some(kind) }.encode_to_vec();
    PhysicalPlanNode { physical_plan_type: Some(PhysicalPlanType::Extension(PhysicalExtensionNode { node, inputs })) }
}

fn own_expr(kind: OwnKind, inputs: Vec<PhysicalExprNode>) -> PhysicalExprNode {
    let expr = OwnMessage { kind: Some(kind) }.encode_to_vec();
    PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::Extension(PhysicalExtensionExprNode { expr, inputs })) }
}

impl PhysicalProtoConverterExtension for Encoder<'_> {
    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        let node = self.deeper(|| self.operator(plan, codec))?.encode_to_vec();
        // The messages in it may nest too deep: a record of many levels.
        if PhysicalPlanNode::decode(node.as_slice()).is_err() {
            return unsendable(format!("the message of {} is nested too deep", plan.name()));
        }
        let mut state = self.state.borrow_mut();
        state.operators.push(node);
        if state.operators.len() > MAX_OPERATORS {
            return unsendable("it has too many operators");
        }
        Ok(extension(OwnKind::Place(last(&state.operators)?), Vec::new()))
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        if let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>()
            && let Some(value) = self.value(subquery)?
        {
            return self.physical_expr_to_proto(&value, codec);
        }
        let node = match expr_check::cast_to_field(expr) {
            Some(cast) => self.deeper(|| {
                let kind = OwnKind::Cast(cast.target_field().as_ref().try_into()?);
                Ok(own_expr(kind, vec![self.physical_expr_to_proto(cast.expr(), codec)?]))
            })?,
            None => {
                expr_check::sendable(expr)?;
                self.deeper(|| serialize_physical_expr_with_converter(expr, codec, self))?
            }
        };
        if expr.children().is_empty() {
            return Ok(node);
        }
        let node = node.encode_to_vec();
        if PhysicalExprNode::decode(node.as_slice()).is_err() {
            return unsendable("the message of an expression is nested too deep");
        }
        let mut state = self.state.borrow_mut();
        state.expressions.push(node);
        if state.expressions.len() > MAX_EXPRESSIONS {
            return unsendable("it has too many expressions");
        }
        Ok(own_expr(OwnKind::Place(last(&state.expressions)?), Vec::new()))
    }

    fn proto_to_execution_plan(
        &self,
        _: &PhysicalPlanNode,
        _: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        unsendable("an encoder decodes nothing")
    }

    fn proto_to_physical_expr(
        &self,
        _: &PhysicalExprNode,
        _: &Schema,
        _: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        unsendable("an encoder decodes nothing")
    }
}
