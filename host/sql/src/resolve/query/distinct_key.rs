//! Values as keys of groups and of DISTINCT, of which FLOAT64 is not equal by its bits.
//!
//! There the engine takes both zeros for one, but not all NaN. A stored FLOAT64 is never NaN, for JSON has none, and
//! stays as it is, so that what looks for columns (conditions that move to the scan, counts of rows) still finds them.

use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::resolve::stored::is_stored;
use crate::typed::Typed;
use crate::typing::group_key;

/// A value over the rows of `plan` as a key: of all NaN one.
pub(super) fn distinct_key(value: Typed, plan: &LogicalPlan) -> Expr {
    if value.ty.is_plain() && is_stored(&value.expr, plan) {
        return value.expr;
    }
    group_key(value).expr
}
