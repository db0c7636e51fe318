//! FLOAT64 as keys of groups and of DISTINCT.
//!
//! There the engine takes both zeros for one, but not all NaN. A stored FLOAT64 is never NaN, for JSON has none, and
//! stays as it is, so that what looks for columns (conditions that move to the scan, counts of rows) still finds them.

use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::resolve::stored::is_stored;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::float_key;

/// A value over the rows of `plan` as a key: of all NaN one.
pub(super) fn distinct_key(value: Typed, plan: &LogicalPlan) -> Expr {
    if value.ty == Type::Float64 && !is_stored(&value.expr, plan) {
        return float_key(value).expr;
    }
    value.expr
}
