//! A call of an aggregate function: its resolved arguments and clauses, and the engine's call that it becomes.

use std::sync::Arc;

use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr};
use tidegate_functions::aggregate::{FloatAggregate, decimal_moment, having, of_floats};
use tidegate_model::Position;

use crate::fail::{Result, invalid, unsupported};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, plan_column, unify};

/// The engine's call of an aggregate function, and the type of its value.
pub(super) type Built = (Expr, Type);

/// What stands beside an aggregate's arguments.
#[derive(Debug, Clone, Default)]
pub(super) struct Clauses {
    pub(super) distinct: bool,
    pub(super) filter: Option<Box<Expr>>,
    pub(super) order_by: Vec<SortExpr>,
    pub(super) limit: Option<i64>,
    pub(super) ignore_nulls: bool,
    pub(super) respect_nulls: bool,
    /// HAVING MAX, or HAVING MIN, of a key.
    pub(super) having: Option<(bool, Expr)>,
}

/// A call with resolved arguments, as many as the function takes.
pub(super) struct AggregateCall<'c> {
    pub(super) name: &'static str,
    pub(super) first: Typed,
    pub(super) second: Option<Typed>,
    pub(super) third: Option<Typed>,
    pub(super) clauses: &'c Clauses,
    pub(super) at: Option<Position>,
}

impl AggregateCall<'_> {
    /// How arguments are converted.
    pub(super) fn how(&self) -> Conversion {
        Conversion::implicit(self.at)
    }

    /// Checks that values can be compared with each other.
    ///
    /// # Errors
    /// If they cannot.
    pub(super) fn check_comparable(&self, value: &Typed) -> Result<()> {
        if value.ty.is_sortable() {
            return Ok(());
        }
        Err(invalid(format!("{} cannot compare values of type {}", self.name, value.ty), self.at))
    }

    /// Checks that values can be told apart.
    ///
    /// # Errors
    /// If they cannot.
    pub(super) fn check_groupable(&self, value: &Typed) -> Result<()> {
        if value.ty.is_groupable() {
            return Ok(());
        }
        Err(invalid(format!("{} cannot compare values of type {}", self.name, value.ty), self.at))
    }

    /// A function of the first argument as a type, which gives a value of that type.
    ///
    /// # Errors
    /// If the argument does not convert.
    pub(super) fn of_type(self, function: Arc<AggregateUDF>, ty: &Type) -> Result<Built> {
        let value = self.first.convert(ty, Conversion::implicit(self.at))?;
        Ok((collected(function, vec![plan_column(value).expr], self.clauses), ty.clone()))
    }

    /// An aggregate of FLOAT64.
    ///
    /// # Errors
    /// If an argument does not convert.
    pub(super) fn of_float(self, which: FloatAggregate) -> Result<Built> {
        let how = self.how();
        let arguments: Vec<Typed> = [Some(self.first), self.second].into_iter().flatten().collect();
        if which.is_moment() && arguments.iter().any(|value| value.ty.is_decimal()) {
            let (values, ty) = unify(arguments.clone(), self.at)?;
            if ty.is_decimal() {
                if self.clauses.distinct {
                    let what = format!("{}(DISTINCT ...) of {ty}", self.name);
                    return Err(unsupported(what, Some("write CAST(x AS FLOAT64)"), self.at));
                }
                let values = values.into_iter().map(|value| value.expr).collect();
                return Ok((collected(decimal_moment(which), values, self.clauses), Type::Float64));
            }
        }
        let arguments = arguments.into_iter();
        let arguments = arguments.map(|value| Ok(plan_column(value.convert(&Type::Float64, how)?).expr));
        Ok((collected(of_floats(which), arguments.collect::<Result<_>>()?, self.clauses), Type::Float64))
    }
}

/// The engine's call of an aggregate function.
pub(super) fn collected(function: Arc<AggregateUDF>, mut arguments: Vec<Expr>, clauses: &Clauses) -> Expr {
    let Clauses { distinct, filter, order_by, ignore_nulls, having: key, limit: _, respect_nulls: _ } = clauses;
    let nulls = ignore_nulls.then_some(NullTreatment::IgnoreNulls);
    let function = match key {
        None => function,
        Some((largest, key)) => {
            arguments.push(key.clone());
            having(function, *largest)
        }
    };
    let call = AggregateFunction::new_udf(function, arguments, *distinct, filter.clone(), order_by.clone(), nulls);
    Expr::AggregateFunction(call)
}
