//! Folding expressions whose operands are all literals.
//!
//! Done while resolving, not left to the engine, because the dialect needs it early: a CASE arm
//! that can never be taken must not be planned (its casts could fail), and a bound written as
//! `CAST(@start AS TIMESTAMP)` must be a plain value for the storage to prune by it.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::create_physical_expr;
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, LazyLock};
use tidegate_functions::context::planning;

use crate::exprs::{any, is_subquery};
use crate::typed::Typed;
use crate::types::Type;

/// The longest text or list that folding may make. Beyond it the expression stays as it is and
/// is computed under the statement's limits.
const MAX_FOLDED_BYTES: usize = 1 << 20;

/// The options of the engine's functions. Making them takes longer than most constants, so they are made once.
static OPTIONS: LazyLock<Arc<ConfigOptions>> = LazyLock::new(Arc::default);

/// The value as a literal if it is a constant. A constant whose computation fails stays an expression: the failure then
/// belongs to the rows that need the value.
pub(crate) fn folded(value: Typed) -> Typed {
    // A statement that is stopped or too large fails in the resolver, which can return the error.
    if matches!(value.expr, Expr::Literal(..)) || !is_constant(&value.expr) || planning::check().is_err() {
        return value;
    }
    match evaluate(&value.expr) {
        Some(scalar) if scalar.size() <= MAX_FOLDED_BYTES => {
            planning::charge(scalar.size());
            Typed::new(Expr::Literal(scalar, None), value.ty)
        }
        _ => value,
    }
}

impl Typed {
    /// The value with its text held as all text is, in views: the engine's functions return one
    /// or the other form of text, and CASE arms and set operations must agree.
    pub(crate) fn uniform(self) -> Self {
        let of_text = match &self.ty {
            Type::Array(item) => **item == Type::String,
            ty => *ty == Type::String,
        };
        if !of_text {
            return self;
        }
        let expr = datafusion::logical_expr::cast(self.expr, self.ty.arrow());
        folded(Self::new(expr, self.ty))
    }
}

fn is_constant(expr: &Expr) -> bool {
    !any(expr, |part| match part {
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::Unnest(_)
        | Expr::Placeholder(_) => true,
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        part => is_subquery(part),
    })
}

fn evaluate(expr: &Expr) -> Option<ScalarValue> {
    let schema = Arc::new(DFSchema::empty());
    let context = SimplifyContext::builder().with_schema(Arc::clone(&schema)).with_config_options(Arc::clone(&OPTIONS));
    let simplifier = ExprSimplifier::new(context.build());
    // Some functions of the engine cannot be computed and are replaced when they are simplified.
    let coerced = simplifier.coerce(expr.clone(), &schema).and_then(|expr| simplifier.simplify(expr)).ok()?;
    let mut properties = ExecutionProps::new();
    properties.config_options = Some(Arc::clone(&OPTIONS));
    let physical = create_physical_expr(&coerced, &schema, &properties, &PhysicalPlanningContext::default()).ok()?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).ok()?;
    match physical.evaluate(&row).ok()? {
        ColumnarValue::Scalar(scalar) => Some(scalar),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok(),
    }
}
