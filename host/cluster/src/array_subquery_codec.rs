//! Subqueries over the arrays of a row as messages, by their logical expressions: each machine compiles them for itself.

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, SortExpr};
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::logical_plan::from_proto::parse_expr;
use datafusion_proto::logical_plan::to_proto::serialize_expr;
use datafusion_proto::protobuf::LogicalExprNode;
use prost::Message;
use tidegate_functions::array_subquery::{ArraySubquery, Finish, Step};

use crate::error::{refused, unsendable};
use crate::function_message::{ArraySubqueryMessage, NamedMessage, SortMessage, StepMessage};
use crate::logical_check::checked;

const EXISTS: u32 = 1;
const SCALAR: u32 = 2;
const ARRAY: u32 = 3;

/// A subquery as a message.
///
/// # Errors
/// If it has something that does not travel.
pub(crate) fn encoded(query: &ArraySubquery, functions: &dyn LogicalExtensionCodec) -> Result<ArraySubqueryMessage> {
    let expr = |expr: &Expr| -> Result<Vec<u8>> {
        Ok(serialize_expr(expr, functions).map_err(datafusion::error::DataFusionError::from)?.encode_to_vec())
    };
    let step = |step: &Step| -> Result<StepMessage> {
        let Step { array, keep, element, offset } = step;
        Ok(StepMessage { array: expr(array)?, keep: *keep, element: element.clone(), offset: offset.clone() })
    };
    let ArraySubquery { steps, filter, aggregates, sorts, distinct, skip, limit, value, finish } = query;
    let message = ArraySubqueryMessage {
        steps: steps.iter().map(step).collect::<Result<_>>()?,
        filter: filter.as_ref().map(expr).transpose()?,
        aggregates: aggregates
            .iter()
            .map(|(name, call)| Ok(NamedMessage { name: name.clone(), expr: expr(call)? }))
            .collect::<Result<_>>()?,
        sorts: sorts
            .iter()
            .map(|sort| {
                Ok(SortMessage { expr: expr(&sort.expr)?, descending: !sort.asc, nulls_first: sort.nulls_first })
            })
            .collect::<Result<_>>()?,
        distinct: *distinct,
        skip: *skip as u64,
        limit: limit.map(|limit| limit as u64),
        value: expr(value)?,
        finish: match finish {
            Finish::Exists => EXISTS,
            Finish::Scalar => SCALAR,
            Finish::Array => ARRAY,
        },
    };
    // What the engine's messages lose or cannot nest shows here.
    match decoded(&message, functions) {
        Ok(again) if again == *query => Ok(message),
        Ok(_) => unsendable("a subquery over arrays would lose something"),
        Err(error) => unsendable(format!("a subquery over arrays does not travel: {error}")),
    }
}

/// A subquery from a message.
///
/// # Errors
/// If it has something that may not stand in one.
pub(crate) fn decoded(message: &ArraySubqueryMessage, functions: &dyn LogicalExtensionCodec) -> Result<ArraySubquery> {
    let task = TaskContext::default();
    let expr = |bytes: &Vec<u8>| -> Result<Expr> {
        let Ok(node) = LogicalExprNode::decode(bytes.as_slice()) else {
            return refused("an expression of a subquery cannot be read");
        };
        checked(&node)?;
        Ok(parse_expr(&node, &task, functions)?)
    };
    let step = |step: &StepMessage| -> Result<Step> {
        let StepMessage { array, keep, element, offset } = step;
        Ok(Step { array: expr(array)?, keep: *keep, element: element.clone(), offset: offset.clone() })
    };
    let ArraySubqueryMessage { steps, filter, aggregates, sorts, distinct, skip, limit, value, finish } = message;
    let count = |number: &u64| usize::try_from(*number).unwrap_or(usize::MAX);
    Ok(ArraySubquery {
        steps: steps.iter().map(step).collect::<Result<_>>()?,
        filter: filter.as_ref().map(expr).transpose()?,
        aggregates: aggregates
            .iter()
            .map(|NamedMessage { name, expr: call }| Ok((name.clone(), expr(call)?)))
            .collect::<Result<_>>()?,
        sorts: sorts
            .iter()
            .map(|sort| Ok(SortExpr { expr: expr(&sort.expr)?, asc: !sort.descending, nulls_first: sort.nulls_first }))
            .collect::<Result<_>>()?,
        distinct: *distinct,
        skip: count(skip),
        limit: limit.as_ref().map(count),
        value: expr(value)?,
        finish: match *finish {
            EXISTS => Finish::Exists,
            SCALAR => Finish::Scalar,
            ARRAY => Finish::Array,
            other => return refused(format!("a subquery ends with {other}")),
        },
    })
}
