//! A plan from bytes that anyone may have sent.
//!
//! Nothing of a plan runs here. What is made is made of a list: operators and expressions that `operator_check` and
//! `expr_check` name, functions of `engine_functions` and of ours, scans of segments that the task holds. Each operator
//! and expression is taken from its list once, so the work is bounded by the length of the bytes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::from_proto::parse_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalExtensionNode, PhysicalPlanNode};
use prost::Message;
use tidegate_sql::{OwnOperator, PartReader};
use tidegate_store::{HeldSegments, source_union};

use crate::bounds::{MAX_DEPTH, MAX_EXPRESSIONS, MAX_OPERATORS, MAX_PARTITIONS, MAX_PLAN_BYTES};
use crate::error::{PlanError, refused};
use crate::function_codec::FunctionCodec;
use crate::local_leaves::LocalLeaves;
use crate::message::{OwnKind, OwnMessage, PlanMessage, VERSION};
use crate::{boundary_codec, expr_check, literal_check, operator_check, scan_codec};

/// Decodes a plan. Scans read the segments in `segments` and no others; `task` has the options, the files and the cache
/// of footers that they read with. `leaves` are the operators that the plan names by number.
///
/// What belongs to one run is not among the operators: whoever runs the plan puts it around them.
///
/// # Errors
/// [`PlanError::Refused`].
pub fn decode(
    bytes: &[u8],
    segments: &HeldSegments,
    task: &TaskContext,
    leaves: &LocalLeaves,
) -> std::result::Result<Arc<dyn ExecutionPlan>, PlanError> {
    // The engine's constructors trust what they are given. What the checks overlook must not end more than this.
    match catch_unwind(AssertUnwindSafe(|| decoded(bytes, segments, task, leaves))) {
        Ok(decoded) => decoded.map_err(|error| PlanError::from_engine(&error, PlanError::Refused)),
        Err(_) => Err(PlanError::Refused("an operator cannot be made".to_owned())),
    }
}

fn decoded(
    bytes: &[u8],
    segments: &HeldSegments,
    task: &TaskContext,
    leaves: &LocalLeaves,
) -> Result<Arc<dyn ExecutionPlan>> {
    if bytes.len() > MAX_PLAN_BYTES {
        return refused("it has too many bytes");
    }
    let Ok(PlanMessage { version, operators, expressions, parts, count }) = PlanMessage::decode(bytes) else {
        return refused("it cannot be read");
    };
    if version != VERSION {
        return refused(format!("it is of version {version}, not {VERSION}"));
    }
    if u32::try_from(operators.len()) != Ok(count) {
        return refused("it is not whole");
    }
    if operators.len() > MAX_OPERATORS || expressions.len() > MAX_EXPRESSIONS {
        return refused("it is too large");
    }
    let root = operators.len().wrapping_sub(1);
    let state = State {
        operators: operators.into_iter().map(Some).collect(),
        expressions: expressions.into_iter().map(Some).collect(),
        parts: parts.iter().map(|part| (part.part, Part::Place(part.operator))).collect(),
        dynamic: HashMap::new(),
        depth: 0,
    };
    let decoder = Decoder { segments, task, leaves, state: RefCell::new(state) };
    // Functions are made with the options that they are planned with.
    let options = SessionConfig::from(ConfigOptions::default());
    let functions = TaskContext::default().with_session_config(options);
    let context = PhysicalPlanDecodeContext::new(&functions, &FunctionCodec);
    let plan = decoder.operator(root, &context)?;
    let state = decoder.state.into_inner();
    let is_used_up = state.operators.iter().all(Option::is_none) && state.expressions.iter().all(Option::is_none);
    if is_used_up { Ok(plan) } else { refused("it has parts that nothing reads") }
}

/// A part that several operators read.
enum Part {
    Place(u32),
    Made(Arc<dyn ExecutionPlan>),
}

/// What was not decoded yet, and what may be met again.
struct State {
    operators: Vec<Option<Vec<u8>>>,
    expressions: Vec<Option<Vec<u8>>>,
    parts: HashMap<u64, Part>,
    /// Expressions that change while the plan runs: the copies of one share their state.
    dynamic: HashMap<u64, Arc<dyn PhysicalExpr>>,
    depth: usize,
}

/// Every operator and every expression of a plan passes here.
struct Decoder<'t> {
    segments: &'t HeldSegments,
    task: &'t TaskContext,
    leaves: &'t LocalLeaves,
    state: RefCell<State>,
}

impl Decoder<'_> {
    /// Goes one level down.
    fn deeper<T>(&self, walk: impl FnOnce() -> Result<T>) -> Result<T> {
        let depth = {
            let mut state = self.state.borrow_mut();
            state.depth += 1;
            state.depth
        };
        if depth > MAX_DEPTH {
            return refused("it is nested too deep");
        }
        let walked = stacker::maybe_grow(256 << 10, 4 << 20, walk);
        self.state.borrow_mut().depth -= 1;
        walked
    }

    /// The operator at a place of the list, which is taken from it.
    fn operator(&self, place: usize, context: &PhysicalPlanDecodeContext<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let bytes = self.state.borrow_mut().operators.get_mut(place).and_then(Option::take);
        let Some(bytes) = bytes else { return refused("an operator is not there, or is read twice") };
        let Ok(node) = PhysicalPlanNode::decode(bytes.as_slice()) else { return refused("an operator cannot be read") };
        self.deeper(|| match &node.physical_plan_type {
            Some(PhysicalPlanType::Extension(own)) => self.own(own, context),
            Some(operator) => {
                operator_check::allowed(operator)?;
                let plan = node.try_into_physical_plan_with_context(context, self)?;
                operator_check::consistent(plan.as_ref())?;
                Ok(plan)
            }
            None => refused("an operator is empty"),
        })
    }

    /// An operator of ours.
    fn own(
        &self,
        node: &PhysicalExtensionNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs = || {
            let inputs = node.inputs.iter().map(|input| self.proto_to_execution_plan(input, context));
            inputs.collect::<Result<Vec<_>>>()
        };
        let kind = match OwnMessage::decode(node.node.as_slice()) {
            Ok(OwnMessage { kind: Some(kind) }) => kind,
            _ => return refused("an operator cannot be read"),
        };
        match (kind, node.inputs.len()) {
            (OwnKind::Barrier(_), 1) => match inputs()?.pop() {
                Some(input) => Ok(OwnOperator::Barrier(input).into_plan()),
                None => refused("a barrier has no input"),
            },
            (OwnKind::Attempt(_), 1) => match inputs()?.pop() {
                Some(input) if !input.schema().fields().is_empty() => Ok(OwnOperator::Attempt(input).into_plan()),
                _ => refused("an attempt has no value"),
            },
            (OwnKind::Unordered(_), 1) => match inputs()?.pop() {
                Some(input) => Ok(OwnOperator::Unordered(input).into_plan()),
                None => refused("a union without order has no input"),
            },
            (OwnKind::SourceUnion(_), 2..=MAX_PARTITIONS) => source_union(inputs()?),
            (OwnKind::SharedRows(rows), 0) => {
                let input = self.part(rows.part, context)?;
                let (Ok(part), Ok(reader)) = (usize::try_from(rows.part), usize::try_from(rows.reader)) else {
                    return refused("a shared part has too large a number");
                };
                let place = PartReader { part, reader, once: rows.once };
                Ok(OwnOperator::SharedRows { place, input }.into_plan())
            }
            (OwnKind::Scan(scan), 0) => {
                let expr = |node: &_, schema: &_| self.proto_to_physical_expr(node, schema, context);
                scan_codec::decoded(&scan, expr)?.scan(self.segments, self.task)
            }
            (OwnKind::Boundary(message), 0 | 1) => boundary_codec::decoded(&message, &inputs()?, self.task, self),
            (OwnKind::Local(number), 0) => {
                let leaf = usize::try_from(number).ok().and_then(|number| self.leaves.plans.get(number));
                leaf.map_or_else(|| refused("it reads rows that are not here"), |leaf| Ok(Arc::clone(leaf)))
            }
            _ => refused("an operator has other inputs than it may have"),
        }
    }

    /// The plan of a shared part. One that reads itself is not there while it is being made.
    fn part(&self, part: u64, context: &PhysicalPlanDecodeContext<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let known = self.state.borrow_mut().parts.remove(&part);
        let plan = match known {
            Some(Part::Made(plan)) => plan,
            Some(Part::Place(place)) => self.operator(usize::try_from(place).unwrap_or(usize::MAX), context)?,
            None => return refused("a shared part is not there"),
        };
        self.state.borrow_mut().parts.insert(part, Part::Made(Arc::clone(&plan)));
        Ok(plan)
    }

    fn expression(
        &self,
        node: &PhysicalExprNode,
        columns: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        expr_check::allowed(node, columns)?;
        let made = self.deeper(|| parse_physical_expr_with_converter(node, columns, context, self))?;
        let Some(id) = node.expr_id else { return Ok(made) };
        let known = self.state.borrow().dynamic.get(&id).map(Arc::clone);
        match known {
            Some(known) if known.children().len() == made.children().len() => {
                let children = made.children().into_iter().map(Arc::clone).collect();
                known.with_new_children(children)
            }
            Some(_) => refused("two expressions have one number"),
            None => {
                self.state.borrow_mut().dynamic.insert(id, Arc::clone(&made));
                Ok(made)
            }
        }
    }
}

impl PhysicalProtoConverterExtension for Decoder<'_> {
    fn proto_to_execution_plan(
        &self,
        node: &PhysicalPlanNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(PhysicalPlanType::Extension(PhysicalExtensionNode { node, inputs })) = &node.physical_plan_type else {
            return refused("an operator stands in another one");
        };
        match OwnMessage::decode(node.as_slice()) {
            Ok(OwnMessage { kind: Some(OwnKind::Place(place)) }) if inputs.is_empty() => {
                self.operator(usize::try_from(place).unwrap_or(usize::MAX), context)
            }
            _ => refused("an operator stands in another one"),
        }
    }

    fn proto_to_physical_expr(
        &self,
        node: &PhysicalExprNode,
        columns: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(ExprType::Extension(reference)) = &node.expr_type else {
            return self.expression(node, columns, context);
        };
        let place = match OwnMessage::decode(reference.expr.as_slice()) {
            Ok(OwnMessage { kind: Some(OwnKind::Place(place)) }) if reference.inputs.is_empty() => place,
            _ => return refused("an expression cannot be read"),
        };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let bytes = self.state.borrow_mut().expressions.get_mut(place).and_then(Option::take);
        let Some(bytes) = bytes else { return refused("an expression is not there, or is read twice") };
        let Ok(node) = PhysicalExprNode::decode(bytes.as_slice()) else {
            return refused("an expression cannot be read");
        };
        let Some(ExprType::Extension(own)) = &node.expr_type else { return self.expression(&node, columns, context) };
        match (OwnMessage::decode(own.expr.as_slice()), own.inputs.as_slice()) {
            (Ok(OwnMessage { kind: Some(OwnKind::Cast(field)) }), [input]) => {
                let field = Arc::new(Field::try_from(&field)?);
                literal_check::data_type(field.data_type())?;
                let input = self.deeper(|| self.proto_to_physical_expr(input, columns, context))?;
                Ok(Arc::new(CastExpr::new_with_target_field(input, field, None)))
            }
            _ => refused("an expression cannot be read"),
        }
    }

    fn execution_plan_to_proto(
        &self,
        _: &Arc<dyn ExecutionPlan>,
        _: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        refused("a decoder encodes nothing")
    }

    fn physical_expr_to_proto(
        &self,
        _: &Arc<dyn PhysicalExpr>,
        _: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        refused("a decoder encodes nothing")
    }
}
