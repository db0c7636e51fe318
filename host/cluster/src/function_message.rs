//! The messages of functions: the name of one of the engine, or the parameters of one of ours. So that a function of
//! ours is never taken for one of the engine that has the same name, each kind has a field of its own.

use datafusion_proto::protobuf::ArrowType;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScalarMessage {
    #[prost(oneof = "ScalarKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub(crate) kind: Option<ScalarKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ScalarKind {
    #[prost(string, tag = "1")]
    Engine(String),
    #[prost(message, tag = "2")]
    Kernel(FormMessage),
    #[prost(message, tag = "3")]
    Bounded(FormMessage),
    #[prost(message, tag = "4")]
    ArraySubquery(ArraySubqueryMessage),
    #[prost(bool, tag = "5")]
    Counted(bool),
    #[prost(message, tag = "6")]
    JsonText(TypeMessage),
    #[prost(bool, tag = "7")]
    Nullable(bool),
    #[prost(bool, tag = "8")]
    Only(bool),
    #[prost(message, tag = "9")]
    Raised(ArrowType),
    #[prost(message, tag = "10")]
    United(UnitedMessage),
    #[prost(bool, tag = "11")]
    UnnamedField(bool),
    #[prost(message, tag = "12")]
    PortableJsonText(TypeMessage),
}

/// A name and two flags: `safe` and `late` of a kernel, `strict` and `late` of a bounded function.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FormMessage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bool, tag = "2")]
    pub(crate) first: bool,
    #[prost(bool, tag = "3")]
    pub(crate) late: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UnitedMessage {
    #[prost(message, optional, tag = "1")]
    pub(crate) from: Option<TypeMessage>,
    #[prost(message, optional, tag = "2")]
    pub(crate) to: Option<TypeMessage>,
}

/// A type of the dialect. `kind` is the place of the type in `TYPES` of `type_codec`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) kind: u32,
    /// The type of the items of an array.
    #[prost(message, optional, boxed, tag = "2")]
    pub(crate) item: Option<Box<TypeMessage>>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) fields: Vec<FieldMessage>,
    #[prost(bool, tag = "4")]
    pub(crate) open: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldMessage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) ty: Option<TypeMessage>,
}

/// A subquery over the arrays of a row. Expressions are `LogicalExprNode` of the engine.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ArraySubqueryMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) steps: Vec<StepMessage>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(crate) filter: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) aggregates: Vec<NamedMessage>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) sorts: Vec<SortMessage>,
    #[prost(bool, tag = "5")]
    pub(crate) distinct: bool,
    #[prost(uint64, tag = "6")]
    pub(crate) skip: u64,
    #[prost(uint64, optional, tag = "7")]
    pub(crate) limit: Option<u64>,
    #[prost(bytes = "vec", tag = "8")]
    pub(crate) value: Vec<u8>,
    /// 1: whether there are any; 2: the only one; 3: a list.
    #[prost(uint32, tag = "9")]
    pub(crate) finish: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StepMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) array: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub(crate) keep: bool,
    #[prost(string, tag = "3")]
    pub(crate) element: String,
    #[prost(string, optional, tag = "4")]
    pub(crate) offset: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamedMessage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) expr: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SortMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) expr: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub(crate) descending: bool,
    #[prost(bool, tag = "3")]
    pub(crate) nulls_first: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AggregateMessage {
    #[prost(oneof = "AggregateKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 20, 21, 22")]
    pub(crate) kind: Option<AggregateKind>,
    /// Whether the optimizer told it that its rows come in its order; without it, nothing was told.
    #[prost(bool, optional, tag = "15")]
    pub(crate) ordered: Option<bool>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AggregateKind {
    #[prost(string, tag = "1")]
    Engine(String),
    #[prost(bool, tag = "2")]
    Collect(bool),
    #[prost(message, tag = "3")]
    First(FirstMessage),
    /// Whether it is an average.
    #[prost(bool, tag = "4")]
    IntervalSum(bool),
    #[prost(message, tag = "5")]
    Percentile(PercentileMessage),
    #[prost(uint64, tag = "6")]
    Quantiles(u64),
    #[prost(message, tag = "7")]
    Top(TopMessage),
    #[prost(message, tag = "8")]
    Watched(WatchedMessage),
    #[prost(bool, tag = "9")]
    WholeSum(bool),
    #[prost(bool, tag = "10")]
    CountDistinct(bool),
    /// Whether it is an average.
    #[prost(bool, tag = "20")]
    DecimalSum(bool),
    #[prost(message, tag = "21")]
    ExactPercentile(ExactPercentileMessage),
    /// The name of the aggregate of FLOAT64 that it is of decimals.
    #[prost(string, tag = "22")]
    DecimalMoment(String),
    /// The name of an aggregate of FLOAT64.
    #[prost(string, tag = "12")]
    Floats(String),
    /// `whole` is whether the key is the largest.
    #[prost(message, tag = "13")]
    Having(WatchedMessage),
    /// `whole` says nothing.
    #[prost(message, tag = "14")]
    Safe(WatchedMessage),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FirstMessage {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    /// The keys of the order, without their expressions.
    #[prost(message, repeated, tag = "2")]
    pub(crate) order: Vec<SortMessage>,
    #[prost(bool, tag = "3")]
    pub(crate) ignore_nulls: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PercentileMessage {
    #[prost(double, tag = "1")]
    pub(crate) part: f64,
    #[prost(bool, tag = "2")]
    pub(crate) continuous: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExactPercentileMessage {
    /// The upper and the lower half of the part in units of 1e-38.
    #[prost(uint64, tag = "1")]
    pub(crate) high: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) low: u64,
    #[prost(bool, tag = "3")]
    pub(crate) continuous: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TopMessage {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(bool, tag = "2")]
    pub(crate) weighted: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchedMessage {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) inner: Option<Box<AggregateMessage>>,
    #[prost(bool, tag = "2")]
    pub(crate) whole: bool,
}
