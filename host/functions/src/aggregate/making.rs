//! How the accumulator of an aggregate is made again and again: what the engine lends for it once, kept.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

/// An aggregate and its arguments.
#[derive(Debug)]
pub(super) struct Making {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Making {
    /// Of a function and the first `count` of its arguments.
    pub(super) fn of(function: &Arc<AggregateUDF>, arguments: &AccumulatorArgs<'_>, count: usize) -> Self {
        Self {
            function: Arc::clone(function),
            return_field: Arc::clone(&arguments.return_field),
            schema: arguments.schema.clone(),
            ignore_nulls: arguments.ignore_nulls,
            order_bys: arguments.order_bys.to_vec(),
            is_reversed: arguments.is_reversed,
            name: arguments.name.to_owned(),
            is_distinct: arguments.is_distinct,
            exprs: arguments.exprs.iter().take(count).cloned().collect(),
            expr_fields: arguments.expr_fields.iter().take(count).cloned().collect(),
        }
    }

    /// A new accumulator.
    ///
    /// # Errors
    /// If the aggregate makes none of such arguments.
    pub(super) fn make(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}
