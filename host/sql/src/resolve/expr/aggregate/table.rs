//! The aggregate functions: one row for each, with its arguments, its flags and its builder.

use datafusion::functions::core::expr_fn as core;
use datafusion::functions_aggregate as engine;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{cast, lit};
use tidegate_functions::aggregate::FloatAggregate;
use tidegate_model::Position;

use super::builders as build;
use super::call::{AggregateCall, Built, Clauses};
use crate::fail::{Result, invalid};
use crate::typed::Typed;
use crate::types::Type::{Bool, Int64};
use crate::typing::kernel;

/// An aggregate function.
#[derive(Debug)]
pub(in crate::resolve::expr) struct Aggregate {
    pub(in crate::resolve::expr) name: &'static str,
    /// The least and the most arguments.
    least: usize,
    most: usize,
    /// Whether `*` may stand for the argument.
    pub(super) takes_star: bool,
    /// Whether it takes a LIMIT, whose rows are then the first of the result.
    pub(super) takes_limit: bool,
    /// Whether it takes HAVING MAX or HAVING MIN.
    pub(super) takes_having: bool,
    /// Whether it gives the first of its values by their order. INTERVALs are ordered by their lengths, which takes
    /// another function of the engine, and one that windows do not have.
    pub(super) by_order: bool,
    /// Whether it can be computed over a window.
    pub(super) has_window: bool,
    build: fn(AggregateCall<'_>) -> Result<Built>,
    /// What the value becomes that the engine's function gives.
    pub(in crate::resolve::expr) finish: fn(Typed) -> Typed,
}

pub(super) const ANY_VALUE: &str = "ANY_VALUE";
pub(super) const ARRAY_CONCAT_AGG: &str = "ARRAY_CONCAT_AGG";
pub(super) const ARRAY_AGG: Aggregate = Aggregate::new("ARRAY_AGG", 1, build::array_agg).with_limit();
/// Which key it is about is known after grouping only, so [`super`] resolves it.
pub(super) const GROUPING: Aggregate = Aggregate::new("GROUPING", 1, build::not_a_window).without_having();
/// The other MERGE functions extract of what it gives, in [`super`].
pub(super) const MERGED_QUANTILES: Aggregate =
    Aggregate::new("KLL_QUANTILES.MERGE_PARTIAL", 1, build::merged_quantiles).without_window();
pub(super) const MAX_BY: Aggregate = Aggregate::new("MAX_BY", 2, build::maximum_by).without_having().without_window();
pub(super) const MIN_BY: Aggregate = Aggregate::new("MIN_BY", 2, build::minimum_by).without_having().without_window();
/// With a LIMIT it is the list of the first texts, joined, which [`super`] makes.
pub(super) const STRING_AGG: Aggregate =
    Aggregate::new("STRING_AGG", 2, build::string_agg).at_least(1).finished_by(build::joined);

/// Every aggregate function, in alphabetical order.
static TABLE: [Aggregate; 43] = [
    Aggregate::new(ANY_VALUE, 1, build::any_value),
    Aggregate::new("APPROX_COUNT_DISTINCT", 1, build::approx_count_distinct)
        // The engine's number has no sign, and cannot be negated.
        .finished_by(|value| Typed::new(cast(value.expr, value.ty.arrow()), value.ty)),
    Aggregate::new("APPROX_QUANTILES", 2, build::approx_quantiles),
    Aggregate::new("APPROX_TOP_COUNT", 2, build::approx_top_count),
    Aggregate::new("APPROX_TOP_SUM", 3, build::approx_top_sum),
    ARRAY_AGG,
    Aggregate::new(ARRAY_CONCAT_AGG, 1, build::array_concat_agg)
        .with_limit()
        .without_window()
        .finished_by(|value| Typed::new(nested::flatten(value.expr), value.ty)),
    Aggregate::new("AVG", 1, build::average),
    Aggregate::new("BIT_AND", 1, |call| call.of_type(engine::bit_and_or_xor::bit_and_udaf(), &Int64)),
    Aggregate::new("BIT_OR", 1, |call| call.of_type(engine::bit_and_or_xor::bit_or_udaf(), &Int64)),
    Aggregate::new("BIT_XOR", 1, |call| call.of_type(engine::bit_and_or_xor::bit_xor_udaf(), &Int64)),
    Aggregate::new("BOOL_AND", 1, |call| call.of_type(engine::bool_and_or::bool_and_udaf(), &Bool)),
    Aggregate::new("BOOL_OR", 1, |call| call.of_type(engine::bool_and_or::bool_or_udaf(), &Bool)),
    Aggregate::new("CORR", 2, |call| call.of_float(FloatAggregate::Correlation)),
    Aggregate::new("COUNT", 1, build::count).with_star(),
    Aggregate::new("COUNTIF", 1, build::count_if),
    Aggregate::new("COVAR_POP", 2, |call| call.of_float(FloatAggregate::CovariancePop)),
    Aggregate::new("COVAR_SAMP", 2, |call| call.of_float(FloatAggregate::CovarianceSamp)),
    GROUPING,
    Aggregate::new("HLL_COUNT.INIT", 2, build::sketch_of).at_least(1).without_window(),
    Aggregate::new("HLL_COUNT.MERGE", 1, build::merged_sketch).without_window().finished_by(|sketch| {
        let estimate = kernel("sketch_estimate", false, vec![sketch.expr]);
        Typed::new(core::coalesce(vec![estimate, lit(0_i64)]), Int64)
    }),
    Aggregate::new("HLL_COUNT.MERGE_PARTIAL", 1, build::merged_sketch).without_window(),
    Aggregate::new("KLL_QUANTILES.INIT_FLOAT64", 2, build::quantile_sketch_of).at_least(1).without_window(),
    Aggregate::new("KLL_QUANTILES.INIT_INT64", 2, build::quantile_sketch_of).at_least(1).without_window(),
    Aggregate::new("KLL_QUANTILES.MERGE_FLOAT64", 2, build::not_a_window).without_window(),
    Aggregate::new("KLL_QUANTILES.MERGE_INT64", 2, build::not_a_window).without_window(),
    MERGED_QUANTILES,
    Aggregate::new("KLL_QUANTILES.MERGE_POINT_FLOAT64", 2, build::not_a_window).without_window(),
    Aggregate::new("KLL_QUANTILES.MERGE_POINT_INT64", 2, build::not_a_window).without_window(),
    Aggregate::new("LOGICAL_AND", 1, |call| call.of_type(engine::bool_and_or::bool_and_udaf(), &Bool)),
    Aggregate::new("LOGICAL_OR", 1, |call| call.of_type(engine::bool_and_or::bool_or_udaf(), &Bool)),
    Aggregate::new("MAX", 1, build::maximum).of_order(),
    MAX_BY,
    Aggregate::new("MIN", 1, build::minimum).of_order(),
    MIN_BY,
    Aggregate::new("STDDEV", 1, |call| call.of_float(FloatAggregate::DeviationSamp)),
    Aggregate::new("STDDEV_POP", 1, |call| call.of_float(FloatAggregate::DeviationPop)),
    Aggregate::new("STDDEV_SAMP", 1, |call| call.of_float(FloatAggregate::DeviationSamp)),
    STRING_AGG,
    Aggregate::new("SUM", 1, build::sum),
    Aggregate::new("VARIANCE", 1, |call| call.of_float(FloatAggregate::VarianceSamp)),
    Aggregate::new("VAR_POP", 1, |call| call.of_float(FloatAggregate::VariancePop)),
    Aggregate::new("VAR_SAMP", 1, |call| call.of_float(FloatAggregate::VarianceSamp)),
];

/// The aggregate function of a name, in capitals.
pub(in crate::resolve::expr) fn find(name: &str) -> Option<&'static Aggregate> {
    TABLE.iter().find(|function| function.name == name)
}

/// The names of all aggregate functions.
pub(in crate::resolve::expr) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|function| function.name)
}

impl Aggregate {
    /// A function of so many arguments, without flags.
    const fn new(name: &'static str, arguments: usize, build: fn(AggregateCall<'_>) -> Result<Built>) -> Self {
        Self {
            name,
            least: arguments,
            most: arguments,
            takes_star: false,
            takes_limit: false,
            takes_having: true,
            by_order: false,
            has_window: true,
            build,
            finish: |value| value,
        }
    }

    const fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    const fn with_star(self) -> Self {
        Self { takes_star: true, ..self }
    }

    const fn with_limit(self) -> Self {
        Self { takes_limit: true, ..self }
    }

    const fn without_having(self) -> Self {
        Self { takes_having: false, ..self }
    }

    const fn of_order(self) -> Self {
        Self { by_order: true, ..self }
    }

    const fn without_window(self) -> Self {
        Self { has_window: false, ..self }
    }

    const fn finished_by(self, finish: fn(Typed) -> Typed) -> Self {
        Self { finish, ..self }
    }

    /// Builds a call; an argument that is `None` is `*`.
    ///
    /// # Errors
    /// If the function does not take the arguments.
    pub(super) fn call(&self, arguments: Vec<Option<Typed>>, clauses: &Clauses, at: Option<Position>) -> Result<Built> {
        let name = self.name;
        if self.takes_star && matches!(arguments.as_slice(), [None]) {
            return build::count_rows(clauses, at);
        }
        let arguments = arguments
            .into_iter()
            .map(|argument| argument.ok_or_else(|| invalid(format!("{name} cannot take *"), at)))
            .collect::<Result<Vec<_>>>()?;
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let Some(first) = arguments.next() else {
            return Err(invalid(format!("{name} needs an argument"), at));
        };
        if !(self.least..=self.most).contains(&count) {
            let wanted = match self.most {
                1 => "one argument",
                2 => "two arguments",
                _ => "three arguments",
            };
            return Err(invalid(format!("{name} takes {wanted}, not {count}"), at));
        }
        (self.build)(AggregateCall { name, first, second: arguments.next(), third: arguments.next(), clauses, at })
    }
}
