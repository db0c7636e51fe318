//! A row of the table of kernels: what is known of a function besides its computation.
//!
//! A kernel computes Arrow arrays of Arrow arrays and holds no state. It is known by its name; the function that the
//! engine calls is made of the name and two flags (see [`crate::make`]). Every kernel is immutable: its result depends on
//! its arguments only. Its late form says to the engine that it is volatile, only so that it is not folded.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use crate::rows::Body;

/// Computes whole arrays: one out of the arguments' arrays, all of one length. Where `safe`, a row without a result is
/// NULL instead of an error.
pub(crate) type Compute = fn(&[ArrayRef], safe: bool) -> Result<ArrayRef>;

/// Computes a whole batch at once, where its arguments allow that and every row has a result or is NULL. `None`: each row
/// is computed.
pub(crate) type Whole = fn(&[ColumnarValue]) -> Option<ArrayRef>;

/// Whether a function can fail for some value of its arguments, apart from time-outs and the memory of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallibility {
    /// It may fail, or it is not known that it cannot.
    Fallible,
    /// It cannot fail where all arguments but the first are literals, which are checked when the call is built.
    FallibleUnlessLiterals,
    /// It cannot fail.
    Infallible,
}

/// How a kernel computes.
#[derive(Debug)]
pub(crate) enum Computation {
    /// One row at a time, within bounds on what it makes. Where not `nulls`, a NULL argument makes a NULL.
    Rows { body: Body, nulls: bool },
    /// A whole array of this type at once.
    Arrays(DataType, Compute),
    /// A whole array of the type of the first argument.
    OfFirst(Compute),
    /// A whole array of lists of that type.
    Lists(Compute),
}

/// A row of the table of kernels.
#[derive(Debug)]
pub struct Kernel {
    name: &'static str,
    arity: RangeInclusive<usize>,
    computation: Computation,
    whole: Option<Whole>,
    fallibility: Fallibility,
    keeps_order_of: Option<usize>,
}

impl Kernel {
    /// A kernel that computes a row at a time, and never sees NULLs.
    pub(crate) const fn rows(name: &'static str, arity: RangeInclusive<usize>, body: Body) -> Self {
        Self::new(name, arity, Computation::Rows { body, nulls: false })
    }

    /// The same for one that sees NULLs.
    pub(crate) const fn rows_with_nulls(name: &'static str, arity: RangeInclusive<usize>, body: Body) -> Self {
        Self::new(name, arity, Computation::Rows { body, nulls: true })
    }

    /// A kernel that computes whole arrays of type `returns`.
    pub(crate) const fn arrays(name: &'static str, arguments: usize, returns: DataType, compute: Compute) -> Self {
        Self::new(name, arguments..=arguments, Computation::Arrays(returns, compute))
    }

    /// A kernel that computes whole arrays of the type of its first argument.
    pub(crate) const fn of_first(name: &'static str, arity: RangeInclusive<usize>, compute: Compute) -> Self {
        Self::new(name, arity, Computation::OfFirst(compute))
    }

    /// The same of lists of that type.
    pub(crate) const fn lists(name: &'static str, arguments: usize, compute: Compute) -> Self {
        Self::new(name, arguments..=arguments, Computation::Lists(compute))
    }

    const fn new(name: &'static str, arity: RangeInclusive<usize>, computation: Computation) -> Self {
        Self { name, arity, computation, whole: None, fallibility: Fallibility::Fallible, keeps_order_of: None }
    }

    /// The same kernel, of which is known when it can fail. To forget this costs time, because filters with the kernel
    /// stay above the security barrier; to say it wrongly would tell of rows behind it.
    pub(crate) const fn with_fallibility(mut self, fallibility: Fallibility) -> Self {
        self.fallibility = fallibility;
        self
    }

    /// The same kernel, which computes some batches at once.
    pub(crate) const fn with_whole(mut self, whole: Whole) -> Self {
        self.whole = Some(whole);
        self
    }

    /// The same kernel, whose results have the order of this argument where the others are the same for all rows.
    pub(crate) const fn with_order_of(mut self, argument: usize) -> Self {
        self.keeps_order_of = Some(argument);
        self
    }

    /// Its name, which no other kernel has.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many arguments it takes.
    pub fn arity(&self) -> &RangeInclusive<usize> {
        &self.arity
    }

    /// The type of its result for arguments of these types.
    pub fn returns(&self, arguments: &[DataType]) -> DataType {
        match &self.computation {
            Computation::Rows { body, .. } => body.returns(arguments),
            Computation::Arrays(returns, _) => returns.clone(),
            Computation::OfFirst(_) => arguments.first().cloned().unwrap_or(DataType::Null),
            Computation::Lists(_) => {
                let item = arguments.first().cloned().unwrap_or(DataType::Null);
                DataType::List(Arc::new(Field::new("item", item, true)))
            }
        }
    }

    /// Whether it can fail.
    pub fn fallibility(&self) -> Fallibility {
        self.fallibility
    }

    /// Whether one call may make a value of any length (a text, bytes, an array), which a plan should not hold as a
    /// literal. Such a kernel has a late form, which is never computed before the statement runs.
    pub fn makes_much(&self) -> bool {
        match &self.computation {
            Computation::Rows { body, .. } => body.makes_much(),
            Computation::Arrays(..) | Computation::OfFirst(_) => false,
            Computation::Lists(_) => true,
        }
    }

    /// The result for a batch that is computed at once.
    pub(crate) fn whole(&self, arguments: &[ColumnarValue]) -> Option<ArrayRef> {
        self.whole.and_then(|whole| whole(arguments))
    }

    /// The argument whose order its results have where the others are the same for all rows, if there is one.
    pub(crate) fn keeps_order_of(&self) -> Option<usize> {
        self.keeps_order_of
    }

    pub(crate) fn computation(&self) -> &Computation {
        &self.computation
    }
}
