//! The messages around those of the engine. A number in a `tag` is never used for anything else.
//!
//! A plan is a list of operators and one of expressions. Each names those below it by their places in the lists,
//! instead of holding them: protobuf messages nest at most 100 deep, and a list has no depth. What has no expressions
//! below it (a column, a literal) stands where it is used.

use prost::{Message, Oneof};

/// The version of the messages. A plan of another one is refused.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlanMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    /// `PhysicalPlanNode` of the engine; the last one is the plan.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) operators: Vec<Vec<u8>>,
    /// `PhysicalExprNode` of the engine.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) expressions: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) parts: Vec<PartMessage>,
    /// The number of operators. It comes last: the first part of a plan is not another plan.
    #[prost(uint32, tag = "15")]
    pub(crate) count: u32,
}

/// A part of the plan that several operators read.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartMessage {
    #[prost(uint64, tag = "1")]
    pub(crate) part: u64,
    /// The place of its operator.
    #[prost(uint32, tag = "2")]
    pub(crate) operator: u32,
}

/// What stands in an extension node of the engine's messages.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnMessage {
    #[prost(oneof = "OwnKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(crate) kind: Option<OwnKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum OwnKind {
    /// The operator or expression at this place of its list.
    #[prost(uint32, tag = "1")]
    Place(u32),
    /// The barrier above a granted table, over one input.
    #[prost(bool, tag = "2")]
    Barrier(bool),
    #[prost(message, tag = "3")]
    SharedRows(SharedRowsMessage),
    /// The union of the scans of a source, over its inputs.
    #[prost(bool, tag = "4")]
    SourceUnion(bool),
    #[prost(message, boxed, tag = "5")]
    Scan(Box<ScanMessage>),
    /// An operator without inputs that stays with the sender.
    #[prost(uint32, tag = "6")]
    Local(u32),
    /// A cast of one input to a field of which not only the type counts.
    #[prost(message, tag = "7")]
    Cast(datafusion_proto::protobuf::Field),
    /// What stands above a union whose rows have no order, over one input.
    #[prost(bool, tag = "8")]
    Unordered(bool),
    /// A boundary to the stage below, or what copies rows for one: the message of `datafusion-distributed`.
    #[prost(bytes = "vec", tag = "9")]
    Boundary(Vec<u8>),
    /// One row with the value of a subquery or why it has none, over one input.
    #[prost(bool, tag = "10")]
    Attempt(bool),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SharedRowsMessage {
    #[prost(uint64, tag = "1")]
    pub(crate) part: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) reader: u64,
    #[prost(bool, tag = "3")]
    pub(crate) once: bool,
}

/// A scan of segments; see `tidegate_store::ScanDescription`. Expressions are `PhysicalExprNode` of the engine.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScanMessage {
    #[prost(string, tag = "1")]
    pub(crate) source: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) shape: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub(crate) schema: Option<datafusion_proto::protobuf::Schema>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) segments: Vec<SegmentMessage>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) partitions: Vec<PartitionMessage>,
    #[prost(message, optional, tag = "6")]
    pub(crate) rows: Option<CountMessage>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) projection: Vec<NamedExprMessage>,
    #[prost(message, optional, tag = "8")]
    pub(crate) predicate: Option<datafusion_proto::protobuf::PhysicalExprNode>,
    #[prost(message, optional, tag = "9")]
    pub(crate) texts: Option<TextMessage>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) orders: Vec<OrderMessage>,
    #[prost(bool, tag = "11")]
    pub(crate) preserves_order: bool,
    #[prost(message, optional, tag = "12")]
    pub(crate) reading_order: Option<OrderMessage>,
    #[prost(uint64, optional, tag = "13")]
    pub(crate) limit: Option<u64>,
    #[prost(message, optional, tag = "14")]
    pub(crate) ids: Option<IdsMessage>,
}

/// A list of ids, which may be empty.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct IdsMessage {
    #[prost(string, repeated, tag = "1")]
    pub(crate) ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SegmentMessage {
    /// The 16 bytes of its id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) rows: u64,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) checksum: Option<u32>,
    /// The 16 bytes of the id of its source.
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) source: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartitionMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) files: Vec<FileMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) segment: u32,
    /// Whether all row groups are read; else `row_groups` says which.
    #[prost(bool, tag = "2")]
    pub(crate) all: bool,
    #[prost(bool, repeated, tag = "3")]
    pub(crate) row_groups: Vec<bool>,
    #[prost(message, optional, tag = "4")]
    pub(crate) rows: Option<CountMessage>,
    #[prost(sint64, tag = "5")]
    pub(crate) oldest: i64,
    #[prost(sint64, tag = "6")]
    pub(crate) newest: i64,
    #[prost(message, optional, tag = "7")]
    pub(crate) range: Option<RangeMessage>,
}

/// A range of bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeMessage {
    #[prost(int64, tag = "1")]
    pub(crate) start: i64,
    #[prost(int64, tag = "2")]
    pub(crate) end: i64,
}

/// A number that may be known exactly, about, or not at all (no message).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CountMessage {
    #[prost(uint64, tag = "1")]
    pub(crate) count: u64,
    #[prost(bool, tag = "2")]
    pub(crate) exact: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NamedExprMessage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) expr: Option<datafusion_proto::protobuf::PhysicalExprNode>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OrderMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) keys: Vec<datafusion_proto::protobuf::PhysicalSortExprNode>,
}

/// A condition on texts: all of some, any of some, or a part that a column contains.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TextMessage {
    #[prost(oneof = "TextKind", tags = "1, 2, 3")]
    pub(crate) kind: Option<TextKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum TextKind {
    #[prost(message, tag = "1")]
    All(TextsMessage),
    #[prost(message, tag = "2")]
    Any(TextsMessage),
    #[prost(message, tag = "3")]
    Contains(ContainsMessage),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TextsMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) conditions: Vec<TextMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainsMessage {
    #[prost(string, tag = "1")]
    pub(crate) column: String,
    #[prost(string, tag = "2")]
    pub(crate) part: String,
}
