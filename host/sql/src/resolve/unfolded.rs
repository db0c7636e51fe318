//! Bounds what expressions unfold to.
//!
//! A value that a text names once may stand several times in what it becomes: `x BETWEEN a AND b` compares x twice, and the
//! engine makes of `COALESCE(a, b)` a CASE with a twice. Where one such value stands in another, and so on, the
//! innermost is there 2^n times: a hundred characters would take all memory. So what a statement unfolds to beyond what
//! its text accounts for is bounded, at each level while it is made.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use tidegate_functions::context::planning;
use tidegate_model::{Code, Failure, Position};

use crate::fail::{Result, fail};

/// The parts that each expression of the text may become: a path of a log record becomes a dozen.
const OF_EACH: usize = 32;
/// The parts that an operator adds at most to those of what it stands between.
const OF_OPERATOR: usize = 16;
/// The parts beyond these that an expression may have. The time to plan it grows with their square.
const BEYOND: usize = 1_024;
/// The same for all expressions of a statement.
const BEYOND_IN_ALL: usize = 16_384;

/// What was counted so far.
#[derive(Default)]
pub(super) struct Unfolded {
    /// The parts that the text accounts for.
    accounted: usize,
    /// The parts beyond them.
    beyond: usize,
    /// How many parts at most the expressions have that were resolved in each of those around.
    around: Vec<usize>,
}

impl Unfolded {
    /// Before an expression is resolved. Gives what is handed to [`Self::leave`].
    pub(super) fn enter(&mut self) -> usize {
        self.around.push(0);
        let before = self.accounted;
        self.accounted += OF_EACH;
        before
    }

    /// After that; `expr` is what it became, if it became something. One that `adds` has each value in it once: then what was
    /// counted of these is not counted again at each level.
    ///
    /// # Errors
    /// If that has too many parts.
    pub(super) fn leave(&mut self, before: usize, expr: Option<&Expr>, adds: bool, at: Option<Position>) -> Result<()> {
        let within = self.around.pop().unwrap_or_default();
        let Some(expr) = expr else { return Ok(()) };
        let accounted = self.accounted - before;
        let most = accounted + BEYOND.min(BEYOND_IN_ALL - self.beyond);
        let sum = within.saturating_add(OF_OPERATOR);
        let parts = if adds && sum <= most { sum } else { parts(expr, most).ok_or_else(|| too_many(at))? };
        match self.around.last_mut() {
            Some(around) => *around = around.saturating_add(parts),
            None => self.beyond += parts.saturating_sub(accounted),
        }
        Ok(())
    }

    /// Accounts for elements of a constant array, of which a list is written.
    pub(super) fn account_elements(&mut self, count: usize) {
        self.accounted += count.saturating_mul(OF_EACH);
    }

    /// Accounts for a value that a name stands for.
    pub(super) fn account(&mut self, value: &Expr) {
        self.accounted += parts(value, usize::MAX).unwrap_or_default();
    }

    /// Resolves a subquery, whose expressions stand in no others.
    pub(super) fn apart(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.around)
    }

    /// After that.
    pub(super) fn back(&mut self, around: Vec<usize>) {
        self.around = around;
    }
}

/// Counts the copies of a value that is compared so many times, before they are made.
///
/// # Errors
/// If they are more than the plan may hold.
pub(super) fn charge_copies(value: &Expr, times: usize) -> Result<()> {
    let parts = parts(value, usize::MAX - 1).unwrap_or(usize::MAX);
    planning::charge(parts.saturating_mul(times).saturating_mul(size_of::<Expr>()));
    planning::check()
}

fn too_many(at: Option<Position>) -> Failure {
    let message = "an expression repeats too much: BETWEEN, COALESCE, NULLIF and the like use a value several times, and these \
                   stand in one another; compute the inner one in a subquery or CTE";
    fail(Code::TooLarge, message, at)
}

/// The parts of an expression but its literals, once the engine has unfolded it; none if there are more than `most`.
fn parts(expr: &Expr, most: usize) -> Option<usize> {
    let mut count = 0_usize;
    let mut open = vec![(expr, 1_usize)];
    while let Some((expr, times)) = open.pop() {
        if !matches!(expr, Expr::Literal(..)) {
            count = count.saturating_add(times);
        }
        if count > most {
            return None;
        }
        let last = match expr {
            Expr::ScalarFunction(call) if call.name() == "coalesce" => call.args.len().checked_sub(1),
            _ => None,
        };
        let mut place = 0;
        // The closure never fails, so neither does the walk.
        let _ = expr.apply_children(|part| {
            open.push((part, if last.is_some_and(|last| place < last) { times.saturating_mul(2) } else { times }));
            place += 1;
            Ok(TreeNodeRecursion::Continue)
        });
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use datafusion::functions::core::expr_fn::coalesce;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn a_sum_is_counted_by_its_parts() {
        let mut unfolded = Unfolded::default();
        let began = unfolded.enter();
        let expr = (0..4).fold(col("a"), |sum, _| {
            let before = unfolded.enter();
            assert!(unfolded.leave(before, Some(&sum), false, None).is_ok());
            sum + col("b")
        });
        assert_eq!(unfolded.around, [1 + 3 + 5 + 7]);
        assert!(unfolded.leave(began, Some(&expr), true, None).is_ok());
        assert_eq!((unfolded.around.len(), unfolded.beyond), (0, 0));
        // What repeats its values is counted.
        let before = unfolded.enter();
        let twice = (0..12).fold(col("a"), |inner, _| inner.clone() + inner);
        assert!(unfolded.leave(before, Some(&twice), false, None).is_err());
    }

    #[test]
    fn all_values_of_a_coalesce_but_the_last_count_twice() {
        let expr = coalesce(vec![col("a") + lit(1), col("b"), lit(2)]);
        assert_eq!(parts(&expr, 100), Some(1 + 2 * 2 + 2));
        assert_eq!(parts(&expr, 6), None);
        let nested = (0..200).fold(col("a"), |inner, _| coalesce(vec![inner + lit(1), lit(2)]));
        assert_eq!(parts(&nested, usize::MAX - 1), None);
    }
}
