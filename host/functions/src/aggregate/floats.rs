//! Aggregates of FLOAT64: sums, averages, the least and greatest value, variances, covariances and the correlation.
//!
//! The engine's own leave NaN out in some plans and not in others, overflow on the way to a result that does not, give an
//! infinity for a sum that overflows, and subtract what leaves a frame: of floats that loses digits (1e20 + 1 - 1e20 is
//! 0), and an infinity or NaN never leaves. Here an aggregate is a total that rows are added to and that is joined with
//! others of its kind ([`totals`]); of a frame that values leave, nothing is subtracted ([`queue`]).

mod accumulators;
mod queue;
mod totals;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use self::accumulators::{Different, Groups, One};
use self::queue::Frame;
use self::totals::{Extreme, Moments, Sum, Total};
use crate::arrays::list_of;

/// Which aggregate of FLOAT64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatAggregate {
    /// AVG.
    Average,
    /// CORR.
    Correlation,
    /// COVAR_POP.
    CovariancePop,
    /// COVAR_SAMP.
    CovarianceSamp,
    /// STDDEV_POP.
    DeviationPop,
    /// STDDEV_SAMP.
    DeviationSamp,
    /// MAX.
    Maximum,
    /// MIN.
    Minimum,
    /// SUM.
    Sum,
    /// VAR_POP.
    VariancePop,
    /// VAR_SAMP.
    VarianceSamp,
}

impl FloatAggregate {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Average,
        Self::Correlation,
        Self::CovariancePop,
        Self::CovarianceSamp,
        Self::DeviationPop,
        Self::DeviationSamp,
        Self::Maximum,
        Self::Minimum,
        Self::Sum,
        Self::VariancePop,
        Self::VarianceSamp,
    ];

    /// Its name: that of the engine's own, by which the optimizer knows that a DISTINCT aggregate beside it can become groups.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average => "avg",
            Self::Correlation => "corr",
            Self::CovariancePop => "covar_pop",
            Self::CovarianceSamp => "covar_samp",
            Self::DeviationPop => "stddev_pop",
            Self::DeviationSamp => "stddev",
            Self::Maximum => "max",
            Self::Minimum => "min",
            Self::Sum => "sum",
            Self::VariancePop => "var_pop",
            Self::VarianceSamp => "var",
        }
    }

    /// Whether it is a variance, deviation, covariance or correlation.
    pub fn is_moment(self) -> bool {
        !matches!(self, Self::Average | Self::Maximum | Self::Minimum | Self::Sum)
    }

    pub(super) fn arguments(self) -> usize {
        match self {
            Self::Correlation | Self::CovariancePop | Self::CovarianceSamp => 2,
            _ => 1,
        }
    }
}

/// An aggregate of FLOAT64.
pub fn of_floats(which: FloatAggregate) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64; which.arguments()], Volatility::Immutable);
    Arc::new(AggregateUDF::from(Floats { which, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Floats {
    which: FloatAggregate,
    signature: Signature,
}

impl Floats {
    pub(crate) fn which(&self) -> FloatAggregate {
        self.which
    }

    /// What is made for the total of an aggregate.
    fn made<M: Maker>(&self, maker: M) -> M::Made {
        use FloatAggregate::{Average, Maximum, Minimum, Sum as Summed};
        match self.which {
            Average | Summed => maker.of::<Sum>(self.which),
            Minimum => maker.of::<Extreme<false>>(self.which),
            Maximum => maker.of::<Extreme<true>>(self.which),
            _ => maker.of::<Moments>(self.which),
        }
    }
}

/// What is made for a kind of total.
trait Maker {
    type Made;

    fn of<T: Total>(self, which: FloatAggregate) -> Self::Made;
}

/// The accumulator of one group, of all its rows or the different ones.
struct OfGroup {
    different: bool,
}

impl Maker for OfGroup {
    type Made = Box<dyn Accumulator>;

    fn of<T: Total>(self, which: FloatAggregate) -> Self::Made {
        if self.different { Box::new(Different::<T>::new(which)) } else { Box::new(One::<T>::new(which)) }
    }
}

/// The accumulator of a frame that values leave.
struct OfFrame;

impl Maker for OfFrame {
    type Made = Box<dyn Accumulator>;

    fn of<T: Total>(self, which: FloatAggregate) -> Self::Made {
        Box::new(Frame::<T>::new(which))
    }
}

/// The accumulator of many groups.
struct OfGroups;

impl Maker for OfGroups {
    type Made = Box<dyn GroupsAccumulator>;

    fn of<T: Total>(self, which: FloatAggregate) -> Self::Made {
        Box::new(Groups::<T>::new(which))
    }
}

/// How many columns a state has.
struct StateColumns;

impl Maker for StateColumns {
    type Made = usize;

    fn of<T: Total>(self, _: FloatAggregate) -> usize {
        T::PARTS
    }
}

impl AggregateUDFImpl for Floats {
    fn name(&self) -> &'static str {
        self.which.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.made(OfGroup { different: arguments.is_distinct }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct { self.accumulator(arguments) } else { Ok(self.made(OfFrame)) }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let (columns, ty) = match arguments.is_distinct {
            true => (1, list_of(DataType::Float64)),
            false => (self.made(StateColumns), DataType::Float64),
        };
        let field = |i: usize| Arc::new(Field::new(format!("{}[part{i}]", arguments.name), ty.clone(), true));
        Ok((0..columns).map(field).collect())
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.made(OfGroups))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
