//! Every function and aggregate of this crate as its name and parameters, from which it can be made again: what a plan
//! has to carry to another machine.
//!
//! There are no window functions of our own: windows use the engine's, and aggregates that are [`watched`].

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::functions_nested::all_default_nested_functions;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::aggregate::collect::Collect;
use crate::aggregate::count_distinct::CountDistinct;
use crate::aggregate::decimal_moments::DecimalMoment;
use crate::aggregate::decimal_sum::DecimalSum;
use crate::aggregate::first::First;
use crate::aggregate::floats::Floats;
use crate::aggregate::having::Having;
use crate::aggregate::interval_sum::IntervalSum;
use crate::aggregate::quantiles::{Pick, Quantiles};
use crate::aggregate::safe::Safe;
use crate::aggregate::sum::WholeSum;
use crate::aggregate::top::Top;
use crate::aggregate::watched::Watched;
use crate::aggregate::{
    FloatAggregate, collecting, count_distinct, decimal_moment, decimal_sum, exact_percentile, first, having,
    interval_sum, of_floats, percentile, quantiles, safe, top, watched, whole_sum,
};
use crate::array_subquery::{ArraySubquery, Function as ArraySubqueryFunction};
use crate::kernel::Fallibility;
use crate::scalar::bounded::Bounded;
use crate::scalar::counted::Counted;
use crate::scalar::json_text::JsonText;
use crate::scalar::kernel_function::KernelFunction;
use crate::scalar::nullable::{Nullable, Only};
use crate::scalar::raised::Raised;
use crate::scalar::united::United;
use crate::scalar::unnamed_field::UnnamedField;
use crate::table::kernel_function;
use crate::types::Type;

/// A scalar function of this crate: which it is, and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarFunction {
    /// A kernel of the table, in one of its forms; see [`kernel_function`].
    Kernel {
        /// The kernel's name.
        name: String,
        /// Whether a row without a result is NULL.
        safe: bool,
        /// Whether it is never computed before the statement runs.
        late: bool,
    },
    /// A function of the engine that makes arrays, within bounds.
    Bounded {
        /// The name of the engine's function.
        inner: String,
        /// Whether a NULL argument makes a NULL.
        strict: bool,
        /// Whether it is never computed before the statement runs.
        late: bool,
    },
    /// A subquery over the arrays of a row.
    ArraySubquery(Box<ArraySubquery>),
    /// An array with its memory counted.
    Counted,
    /// TO_JSON of a value of this type.
    JsonText(Type),
    /// TO_JSON_STRING of a value of this type.
    PortableJsonText(Type),
    /// A value that may be NULL as far as the engine knows.
    Nullable,
    /// The single item of a list.
    Only,
    /// ERROR in the place of a value of this type.
    Raised(DataType),
    /// A record as one of a wider type.
    United {
        /// Its type.
        from: Type,
        /// The wider type.
        to: Type,
    },
    /// The field of a struct whose name is empty.
    UnnamedField,
}

/// An aggregate function: which it is, and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum AggregateFunction {
    /// An aggregate of the engine, by its name. The engine makes it again by itself; it is here for [`Self::Watched`].
    Engine(String),
    /// ARRAY_AGG without an order.
    Collect,
    /// COUNT(DISTINCT text).
    CountDistinct,
    /// A variance, deviation, covariance or correlation of NUMERIC or BIGNUMERIC.
    DecimalMoment(FloatAggregate),
    /// SUM of NUMERIC or BIGNUMERIC, or AVG.
    DecimalSum {
        /// Whether it is AVG.
        average: bool,
    },
    /// The first values in an order.
    First {
        /// How many.
        number: usize,
        /// The keys of the order.
        order: Vec<SortOptions>,
        /// Whether NULLs are left out.
        ignore_nulls: bool,
    },
    /// An aggregate of FLOAT64.
    Floats(FloatAggregate),
    /// An aggregate over the rows with the largest or smallest key.
    Having {
        /// The aggregate.
        inner: Box<AggregateFunction>,
        /// Whether the key is the largest.
        largest: bool,
    },
    /// SUM of INTERVAL, or AVG.
    IntervalSum {
        /// Whether it is AVG.
        average: bool,
    },
    /// The value at a part (0 to 1) of the sorted values.
    Percentile {
        /// The part.
        part: f64,
        /// Whether it is interpolated.
        continuous: bool,
    },
    /// The same for a part in units of 1e-38.
    ExactPercentile {
        /// The part.
        part: u128,
        /// Whether it is interpolated.
        continuous: bool,
    },
    /// The bounds of so many parts.
    Quantiles(usize),
    /// An aggregate that is NULL where it would fail for its values.
    Safe(Box<AggregateFunction>),
    /// The values with the most rows, or the largest weight.
    Top {
        /// How many.
        number: usize,
        /// Whether there is a weight.
        weighted: bool,
    },
    /// An aggregate over a window.
    Watched {
        /// The aggregate.
        inner: Box<AggregateFunction>,
        /// Whether its one result of a partition goes to every row.
        whole: bool,
    },
    /// SUM of INT64.
    WholeSum,
}

impl ScalarFunction {
    /// Which function of this crate it is; `None` for one of the engine.
    pub fn of(function: &ScalarUDF) -> Option<Self> {
        let inner = function.inner();
        if let Some(kernel) = inner.downcast_ref::<KernelFunction>() {
            let name = kernel.kernel().name().to_owned();
            return Some(Self::Kernel { name, safe: kernel.is_safe(), late: kernel.is_late() });
        }
        if let Some(bounded) = inner.downcast_ref::<Bounded>() {
            let inner = bounded.inner().to_owned();
            return Some(Self::Bounded { inner, strict: bounded.is_strict(), late: bounded.is_late() });
        }
        if let Some(function) = inner.downcast_ref::<ArraySubqueryFunction>() {
            return Some(Self::ArraySubquery(Box::new(function.query().clone())));
        }
        if let Some(text) = inner.downcast_ref::<JsonText>() {
            let ty = text.ty().clone();
            return Some(if text.is_portable() { Self::PortableJsonText(ty) } else { Self::JsonText(ty) });
        }
        if let Some(raised) = inner.downcast_ref::<Raised>() {
            return Some(Self::Raised(raised.returns().clone()));
        }
        if let Some(united) = inner.downcast_ref::<United>() {
            let (from, to) = united.types();
            return Some(Self::United { from: from.clone(), to: to.clone() });
        }
        if inner.downcast_ref::<Counted>().is_some() {
            return Some(Self::Counted);
        }
        if inner.downcast_ref::<Nullable>().is_some() {
            return Some(Self::Nullable);
        }
        if inner.downcast_ref::<Only>().is_some() {
            return Some(Self::Only);
        }
        inner.downcast_ref::<UnnamedField>().map(|_| Self::UnnamedField)
    }

    /// Makes the function. `None` if it names a kernel, a form of one or a function of the engine that does not exist.
    pub fn make(&self) -> Option<Arc<ScalarUDF>> {
        Some(Arc::new(match self {
            Self::Kernel { name, safe, late } => return kernel_function(name, *safe, *late).cloned(),
            Self::Bounded { inner, strict, late } => {
                let inner = all_default_nested_functions().into_iter().find(|function| function.name() == inner)?;
                ScalarUDF::from(Bounded::new(inner, *strict, *late))
            }
            Self::ArraySubquery(query) => ScalarUDF::from(ArraySubqueryFunction::new(query.as_ref().clone())),
            Self::Counted => ScalarUDF::from(Counted::new()),
            Self::JsonText(ty) => ScalarUDF::from(JsonText::new(ty.clone(), false)),
            Self::PortableJsonText(ty) => ScalarUDF::from(JsonText::new(ty.clone(), true)),
            Self::Nullable => ScalarUDF::from(Nullable::new()),
            Self::Only => ScalarUDF::from(Only::new()),
            Self::Raised(returns) => ScalarUDF::from(Raised::new(returns.clone())),
            Self::United { from, to } => ScalarUDF::from(United::new(from.clone(), to.clone())),
            Self::UnnamedField => ScalarUDF::from(UnnamedField::new()),
        }))
    }
}

impl AggregateFunction {
    /// Which aggregate it is. One that this crate does not know is one of the engine.
    pub fn of(function: &AggregateUDF) -> Self {
        let inner = function.inner();
        if inner.downcast_ref::<Collect>().is_some() {
            return Self::Collect;
        }
        if inner.downcast_ref::<CountDistinct>().is_some() {
            return Self::CountDistinct;
        }
        if let Some(moment) = inner.downcast_ref::<DecimalMoment>() {
            return Self::DecimalMoment(moment.which());
        }
        if let Some(sum) = inner.downcast_ref::<DecimalSum>() {
            return Self::DecimalSum { average: sum.is_average() };
        }
        if let Some(first) = inner.downcast_ref::<First>() {
            let (number, order, ignore_nulls) = first.parameters();
            return Self::First { number, order: order.to_vec(), ignore_nulls };
        }
        if let Some(floats) = inner.downcast_ref::<Floats>() {
            return Self::Floats(floats.which());
        }
        if let Some(having) = inner.downcast_ref::<Having>() {
            return Self::Having { inner: Box::new(Self::of(having.inner())), largest: having.is_largest() };
        }
        if let Some(sum) = inner.downcast_ref::<IntervalSum>() {
            return Self::IntervalSum { average: sum.is_average() };
        }
        if let Some(quantiles) = inner.downcast_ref::<Quantiles>() {
            return match quantiles.pick() {
                Pick::Borders(parts) => Self::Quantiles(parts),
                Pick::Between(part) => Self::Percentile { part: f64::from_bits(part), continuous: true },
                Pick::At(part) => Self::Percentile { part: f64::from_bits(part), continuous: false },
                Pick::BetweenExactly(part) => Self::ExactPercentile { part, continuous: true },
                Pick::AtExactly(part) => Self::ExactPercentile { part, continuous: false },
            };
        }
        if let Some(top) = inner.downcast_ref::<Top>() {
            let (number, weighted) = top.parameters();
            return Self::Top { number, weighted };
        }
        if let Some(safe) = inner.downcast_ref::<Safe>() {
            return Self::Safe(Box::new(Self::of(safe.inner())));
        }
        if let Some(watched) = inner.downcast_ref::<Watched>() {
            return Self::Watched { inner: Box::new(Self::of(watched.inner())), whole: watched.is_whole() };
        }
        match inner.downcast_ref::<WholeSum>() {
            Some(_) => Self::WholeSum,
            None => Self::Engine(function.name().to_owned()),
        }
    }

    /// Makes the aggregate. `None` if it names one of the engine that does not exist.
    pub fn make(&self) -> Option<Arc<AggregateUDF>> {
        Some(match self {
            Self::Engine(name) => {
                all_default_aggregate_functions().into_iter().find(|function| function.name() == name)?
            }
            Self::Collect => collecting(true),
            Self::CountDistinct => count_distinct(),
            Self::DecimalMoment(which) => decimal_moment(*which),
            Self::DecimalSum { average } => decimal_sum(*average),
            Self::First { number, order, ignore_nulls } => first(*number, order.clone(), *ignore_nulls),
            Self::Floats(which) => of_floats(*which),
            Self::Having { inner, largest } => having(inner.make()?, *largest),
            Self::IntervalSum { average } => interval_sum(*average),
            Self::Percentile { part, continuous } => percentile(*part, *continuous),
            Self::ExactPercentile { part, continuous } => exact_percentile(*part, *continuous),
            Self::Quantiles(parts) => quantiles(*parts),
            Self::Safe(inner) => safe(inner.make()?),
            Self::Top { number, weighted } => top(*number, *weighted),
            Self::Watched { inner, whole } => watched(inner.make()?, *whole),
            Self::WholeSum => whole_sum(),
        })
    }
}

/// Functions of the engine that cannot fail, whatever they are given. What is not listed may fail.
const ENGINE_INFALLIBLE: [&str; 11] = [
    "character_length",
    "coalesce",
    "ends_with",
    "get_field",
    "lower",
    "named_struct",
    "nullif",
    "octet_length",
    "starts_with",
    "strpos",
    "upper",
];

/// Whether a function, of this crate or the engine, can fail for some value of its arguments.
pub fn fallibility(function: &ScalarUDF) -> Fallibility {
    let inner = function.inner();
    if let Some(kernel) = inner.downcast_ref::<KernelFunction>() {
        return kernel.kernel().fallibility();
    }
    match inner.downcast_ref::<Nullable>().is_some() || ENGINE_INFALLIBLE.contains(&function.name()) {
        true => Fallibility::Infallible,
        false => Fallibility::Fallible,
    }
}
