//! Subqueries in arms that may not be taken, of CASE, IF and COALESCE: one that fails makes the statement fail only where its
//! value is needed.
//!
//! The value of a subquery that reads nothing of the row is computed before any row is. In an arm its plan becomes that of an
//! attempt: one row with the value, or with the reason why there is none. The arm raises the reason where it is computed.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray, StructArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::functions::core::expr_fn::{coalesce, get_field};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, Subquery, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, when,
};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use tidegate_functions::scalar::{raised, raised_as};
use tidegate_functions::wording::MORE_THAN_ONE_ROW;
use tidegate_model::Code;

use crate::barrier::expr_may_fail;
use crate::fail::known_while_running;

/// The fields of an attempt.
const VALUE: &str = "value";
const REASON: &str = "reason";

/// The plan with attempts in the place of subqueries that may fail in arms that may not be taken.
///
/// # Errors
/// If a node cannot be made again, which is a bug.
pub(super) fn attempted(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(of_arms))).data()
}

/// A choice with attempts in its arms. The first value of a COALESCE and the first condition of a CASE are always computed.
fn of_arms(expr: Expr) -> Result<Transformed<Expr>> {
    let all = |values: Vec<Expr>| values.into_iter().map(in_arm).collect::<Result<Vec<_>>>();
    match expr {
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let mut arms = Vec::with_capacity(when_then_expr.len());
            for (place, (condition, value)) in when_then_expr.into_iter().enumerate() {
                let condition = if place == 0 { condition } else { Box::new(in_arm(*condition)?) };
                arms.push((condition, Box::new(in_arm(*value)?)));
            }
            let otherwise = else_expr.map(|value| in_arm(*value).map(Box::new)).transpose()?;
            Ok(Transformed::yes(Expr::Case(Case { expr, when_then_expr: arms, else_expr: otherwise })))
        }
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == "coalesce" && !args.is_empty() => {
            let rest = args.split_off(1);
            args.extend(all(rest)?);
            Ok(Transformed::yes(coalesce(args)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The same for an arm.
fn in_arm(arm: Expr) -> Result<Expr> {
    arm.transform_down(|part| match part {
        Expr::ScalarSubquery(subquery) if subquery.outer_ref_columns.is_empty() => {
            if is_attempt(&subquery.subquery) || !may_fail(&subquery.subquery)? {
                return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
            }
            let value = value_of(subquery)?;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        }
        part => Ok(Transformed::no(part)),
    })
    .data()
}

/// Whether a subquery may fail for some rows: by an expression, or because it has several.
fn may_fail(plan: &LogicalPlan) -> Result<bool> {
    if !is_one_row(plan) {
        return Ok(true);
    }
    let mut fails = false;
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            fails |= expr_may_fail(expr, &schema)?;
            Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// The value of an attempt, which raises the reason why there is none. The engine computes equal subqueries once.
fn value_of(subquery: Subquery) -> Result<Expr> {
    let ty = subquery.subquery.schema().field(0).data_type().clone();
    let attempt = Attempt::over(subquery.subquery.as_ref().clone())?;
    let plan = LogicalPlan::Extension(Extension { node: Arc::new(attempt) });
    let attempt = Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..subquery });
    let field = |name: &str| get_field(attempt.clone(), name);
    let raise = raised(field(REASON));
    let raise = raised_as(&raise, &ty).unwrap_or(raise);
    when(field(REASON).is_null(), field(VALUE)).otherwise(raise)
}

/// One row with the value of a subquery, or with the reason why it has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl Attempt {
    fn over(input: LogicalPlan) -> Result<Self> {
        let schema = DFSchema::try_from(attempt_schema(input.schema().field(0).data_type()))?;
        Ok(Self { input, schema: Arc::new(schema) })
    }
}

fn is_attempt(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Attempt>())
}

fn attempt_fields(value: &DataType) -> Fields {
    vec![Field::new(VALUE, value.clone(), true), Field::new(REASON, DataType::Utf8View, true)].into()
}

fn attempt_schema(value: &DataType) -> Schema {
    Schema::new(vec![Field::new("attempt", DataType::Struct(attempt_fields(value)), true)])
}

impl PartialOrd for Attempt {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Attempt {
    fn name(&self) -> &'static str {
        "Attempt"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attempt")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [input] = take_function_args("Attempt", inputs)?;
        Self::over(input)
    }
}

/// The operator of a node, if it is an attempt.
pub(super) fn attempt_operator(
    node: &dyn UserDefinedLogicalNode,
    input: Option<&Arc<dyn ExecutionPlan>>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let is_attempt = node.as_any().is::<Attempt>();
    input.filter(|_| is_attempt).map(|input| AttemptExec::over(Arc::clone(input)))
}

/// The operator of an attempt.
#[derive(Debug)]
pub(super) struct AttemptExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl AttemptExec {
    pub(super) fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let input_schema = input.schema();
        let value = input_schema.fields().first().map_or(&DataType::Null, |field| field.data_type());
        let equivalences = EquivalenceProperties::new(Arc::new(attempt_schema(value)));
        let one = Partitioning::UnknownPartitioning(1);
        let properties = PlanProperties::new(equivalences, one, EmissionType::Final, Boundedness::Bounded);
        Arc::new(Self { input, properties: Arc::new(properties) })
    }

    /// What is attempted.
    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for AttemptExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attempt")
    }
}

impl ExecutionPlan for AttemptExec {
    fn name(&self) -> &'static str {
        "Attempt"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = take_function_args("Attempt", children)?;
        Ok(Self::over(input))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, schema) = (Arc::clone(&self.input), self.schema());
        let of_schema = Arc::clone(&schema);
        let row = async move {
            let ty = input.schema().field(0).data_type().clone();
            let (value, reason) = match only_value(&input, partition, context).await {
                Ok(value) => (value.unwrap_or_else(|| new_null_array(&ty, 1)), None),
                Err(error) => (new_null_array(&ty, 1), Some(reason_of(error)?)),
            };
            let reason: ArrayRef = Arc::new(StringViewArray::from(vec![reason]));
            let attempt = StructArray::try_new(attempt_fields(&ty), vec![value, reason], None)?;
            Ok(RecordBatch::try_new(of_schema, vec![Arc::new(attempt)])?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(row))))
    }
}

/// The value of the only row; `None` without rows.
async fn only_value(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<Option<ArrayRef>> {
    let mut rows = input.execute(partition, context)?;
    let mut only: Option<ArrayRef> = None;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        if only.is_some() || batch.num_rows() > 1 {
            return Err(DataFusionError::Execution(MORE_THAN_ONE_ROW.to_owned()));
        }
        only = batch.columns().first().map(Arc::clone);
    }
    Ok(only)
}

/// What a value raises that is not there. What does not depend on values ends the statement: too little memory, or time.
fn reason_of(error: DataFusionError) -> Result<String> {
    match known_while_running(&error) {
        Some(failure) if failure.code == Code::InvalidValue => Ok(failure.message),
        _ => Err(error),
    }
}
