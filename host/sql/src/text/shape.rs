//! Bounds the depth of a syntax tree.
//!
//! `a + b + c + ...` nests to the left, one level per operator, without parentheses that the parser would count. The time of
//! planning grows with the cube of the levels, so sums may have a hundred parts. Concatenations of hundreds and the
//! conditions of a search, which may be thousands joined by OR, are rewritten as a balanced tree, which means the same.
//! Sums are not: another order overflows elsewhere.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, PipeOperator, Query, Select, SetExpr, TableFactor, TableWithJoins, Value,
    VisitMut, VisitorMut,
};
use tidegate_model::{Code, Failure, Position, TextLimits};

use super::pipes::is_input;
use super::set_matching::matching_of;
use crate::fail::{Result, fail, place};

/// The limit on the depth of the tree, including chains of operators.
const MAX_DEPTH: usize = 512;
/// The limit on the operators of one chain that is not balanced: as many are planned in a second.
const MAX_OPERATORS: usize = 128;
/// The limit on the conditions that one chain of AND or OR may join.
const MAX_CONDITIONS: usize = 5_000;
/// The limit on nested subqueries in expressions: each level doubles the time of planning.
const MAX_SUBQUERIES: usize = 8;
/// The limit on the tables that one FROM may join, not counting UNNEST: the time of choosing their order grows with the
/// cube of their number.
const MAX_JOINS: usize = 64;
/// The limit on the pipe operators of a statement, and PIVOT and UNPIVOT in FROM: each is a level of the plan.
const MAX_PIPES: usize = 128;
/// Chains with at most this many parts are not rewritten.
const LONG: usize = 32;

/// Bounds the depth of a syntax tree, and balances its chains of conditions.
///
/// # Errors
/// The tree is too deep after balancing, or combines too many queries by set operations.
pub(super) fn shallow(query: &mut Query, limits: &TextLimits) -> Result<()> {
    match query.visit(&mut Shape { limits: *limits, depth: 0, subqueries: 0, united: 0, pipes: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(failure) => Err(*failure),
    }
}

struct Shape {
    limits: TextLimits,
    depth: usize,
    subqueries: usize,
    /// The number of queries that set operations combine.
    united: usize,
    /// The number of pipe operators.
    pipes: usize,
}

impl Shape {
    fn count_pipes(&mut self, count: usize, at: Option<Position>) -> ControlFlow<Box<Failure>> {
        self.pipes += count;
        if self.pipes > MAX_PIPES {
            let message = format!("the statement has more than {MAX_PIPES} pipe operators, PIVOT and UNPIVOT");
            return ControlFlow::Break(Box::new(fail(Code::TooLarge, message, at)));
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Shape {
    type Break = Box<Failure>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let mut next = query.body.as_ref();
        while let SetExpr::SetOperation { left, right, .. } = next {
            self.united += usize::from(matching_of(right).is_none());
            next = left;
        }
        if self.united > self.limits.relations {
            let message = format!("the statement unites more than {} queries", self.limits.relations);
            return ControlFlow::Break(Box::new(fail(Code::LimitExceeded, message, place(query))));
        }
        self.count_pipes(query.pipe_operators.len(), place(query))?;
        let joins = query.pipe_operators.iter().filter(|operator| matches!(operator, PipeOperator::Join(_))).count();
        if joins > MAX_JOINS {
            let message = format!("a query joins {joins} tables by pipes; at most {MAX_JOINS} are allowed");
            return ControlFlow::Break(Box::new(Failure::new(Code::TooLarge, message)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let count = select.from.iter().map(joined).sum::<usize>();
        if count > MAX_JOINS {
            let message = format!("a FROM joins {count} tables; at most {MAX_JOINS} are allowed");
            return ControlFlow::Break(Box::new(Failure::new(Code::TooLarge, message)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        match factor {
            // Those of a pipe operator are counted with it.
            TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } if !is_input(table) => {
                self.count_pipes(1, None)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.depth += 1;
        if operators(expr) > MAX_OPERATORS {
            return ControlFlow::Break(Box::new(too_long(MAX_OPERATORS)));
        }
        if self.depth > MAX_DEPTH {
            return ControlFlow::Break(Box::new(too_long(MAX_DEPTH)));
        }
        self.subqueries += usize::from(is_subquery(expr));
        if self.subqueries > MAX_SUBQUERIES {
            let message = format!("subqueries nest deeper than {MAX_SUBQUERIES} levels in expressions; use WITH");
            return ControlFlow::Break(Box::new(fail(Code::TooLarge, message, place(expr))));
        }
        match chain(expr) {
            Some((BinaryOperator::StringConcat, count)) if count > MAX_DEPTH => {
                ControlFlow::Break(Box::new(too_long(MAX_DEPTH)))
            }
            Some((_, count)) if count > MAX_CONDITIONS => {
                let message = format!(
                    "{count} conditions are joined by one chain of AND or OR; at most {MAX_CONDITIONS} can be, and IN takes a list of values"
                );
                ControlFlow::Break(Box::new(fail(Code::TooLarge, message, position(expr))))
            }
            Some((op, count)) if count > LONG => {
                balance(expr, &op);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        self.subqueries -= usize::from(is_subquery(expr));
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// The number of joined tables, including those in parentheses.
fn joined(tables: &TableWithJoins) -> usize {
    let factors = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
    factors
        .map(|factor| match factor {
            TableFactor::UNNEST { .. } => 0,
            TableFactor::NestedJoin { table_with_joins, .. } => joined(table_with_joins),
            _ => 1,
        })
        .sum()
}

fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(call) => matches!(call.args, FunctionArguments::Subquery(_)),
        _ => false,
    }
}

/// The position of the rightmost condition. Computing the position of the whole chain would recurse.
fn position(expr: &Expr) -> Option<Position> {
    match expr {
        Expr::BinaryOp { right, .. } => place(right.as_ref()),
        other => place(other),
    }
}

fn too_long(most: usize) -> Failure {
    let message = format!(
        "an expression chains more than {most} operators; use fewer, or set parentheses around parts of the chain"
    );
    Failure::new(Code::TooLarge, message)
}

/// Whether chains of an operator mean the same however they are nested.
fn is_balanced(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::StringConcat)
}

/// How many operators of a chain nest to the left that is not balanced.
fn operators(expr: &Expr) -> usize {
    let (mut next, mut count) = (expr, 0);
    while let Expr::BinaryOp { left, op, .. } = next
        && !is_balanced(op)
    {
        count += 1;
        next = left;
    }
    count
}

/// The operator of a chain that is balanced if it is long, and the number of parts that it joins.
fn chain(expr: &Expr) -> Option<(BinaryOperator, usize)> {
    let Expr::BinaryOp { op, .. } = expr else { return None };
    if !is_balanced(op) {
        return None;
    }
    let (mut next, mut count) = (expr, 1);
    while let Expr::BinaryOp { left, op: own, .. } = next
        && own == op
    {
        count += 1;
        next = left;
    }
    Some((op.clone(), count))
}

/// Rewrites a chain that nests to the left as a balanced tree.
fn balance(expr: &mut Expr, op: &BinaryOperator) {
    let nothing = || Expr::Value(Value::Null.into());
    let mut conditions = Vec::new();
    let mut next = std::mem::replace(expr, nothing());
    loop {
        match next {
            Expr::BinaryOp { left, op: own, right } if own == *op => {
                conditions.push(*right);
                next = *left;
            }
            first => {
                conditions.push(first);
                break;
            }
        }
    }
    conditions.reverse();
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        conditions = pairs;
    }
    *expr = conditions.pop().unwrap_or_else(nothing);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn parse(sql: &str) -> Result<Box<Query>> {
        super::super::parse(sql, &TextLimits::default())
    }

    #[test]
    fn a_long_chain_of_conditions_is_balanced_and_means_the_same() {
        let names: Vec<String> = (0..100).map(|i| format!("c{i}")).collect();
        let query = parse(&format!("select 1 where {}", names.join(" or "))).unwrap();
        // The tree contains no parentheses, so its text does not depend on its shape.
        assert_eq!(query.to_string(), format!("SELECT 1 WHERE {}", names.join(" OR ")));
        let SetExpr::Select(select) = query.body.as_ref() else { unreachable!("a select") };
        let (_, depth) = chain(select.selection.as_ref().unwrap()).unwrap();
        assert!(depth <= 8, "{depth}");
    }

    #[test]
    fn chains_of_any_length_are_answered() {
        let join = |part: &str, by: &str, count: usize| vec![part; count].join(by);
        for count in [120, 300, 5_000, 12_000] {
            for (sql, most) in [
                (format!("select {}", join("1", "+", count)), MAX_OPERATORS),
                (format!("select {}", join("a", "||", count)), MAX_DEPTH),
                (format!("select 1{}", "::int64".repeat(count)), MAX_DEPTH),
            ] {
                let expected = (count > most).then_some(Code::TooLarge);
                assert_eq!(parse(&sql).err().map(|failure| failure.code), expected, "{count}: {}", &sql[..40]);
            }
        }
        let query = parse(&format!("select {}", join("a", "||", 500))).unwrap();
        assert_eq!(query.to_string(), format!("SELECT {}", join("a", " || ", 500)));
        assert!(parse(&format!("select {}", join("a", " and ", 5_000))).is_ok());
        assert_eq!(parse(&format!("select {}", join("a", " or ", 5_001))).unwrap_err().code, Code::TooLarge);
        assert!(parse(&format!("select 1 from {}", join("t", " join ", 64))).is_ok());
        assert!(parse(&format!("select 1 from t cross join {}", join("unnest(t.a)", " cross join ", 200))).is_ok());
        assert_eq!(parse(&format!("select 1 from {}", join("t", ", ", 65))).unwrap_err().code, Code::TooLarge);
        assert!(parse(&format!("select {}1{}", "(select ".repeat(8), ")".repeat(8))).is_ok());
        let nested = format!("select {}1{}", "exists(select ".repeat(9), ")".repeat(9));
        assert_eq!(parse(&nested).unwrap_err().code, Code::TooLarge);
        assert!(parse(&join("select 1", " union all ", 1_900)).is_ok());
        // The marker of how columns are matched is no query.
        assert!(parse(&join("select 1 as a", " union all by name ", 1_900)).is_ok());
        assert_eq!(parse(&join("select 1", " union all ", 4_000)).unwrap_err().code, Code::LimitExceeded);
    }
}
