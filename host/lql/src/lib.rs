//! Logflare Query Language (LQL): what people type into a log search box, for instance
//! `m.status:>=500 -path:~health c:count(*) c:group_by(t::hour)`.
//!
//! The road of a text: [`parse`] cuts it into clauses (`syntax`, an ordered-choice grammar), turns
//! the clauses into typed rules ([`Query`]), and [`to_sql`] makes a SQL syntax tree of them. The tree
//! carries what the caller wrote as literal values only; no SQL text is ever put together.
//!
//! Input is hostile: the length of a text, the number of its clauses and the depth of its paths are
//! limited, nothing recurses on the input, and every error tells what, where and what is allowed.

#![cfg_attr(test, expect(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise does not hold"))]

mod cast;
mod condition;
mod cursor;
mod error;
mod jsonl;
mod moment;
mod parse;
mod path;
mod rules;
mod schema;
mod shorthand;
mod sql;
mod syntax;
mod tree;
mod value;

pub use error::{ErrorKind, LqlError, Position};
pub use jsonl::parse_line;
pub use moment::{Moment, Origin};
pub use parse::{Mode, parse, parse_at};
pub use rules::{Aggregate, Chart, Filter, Level, Literal, Modifiers, Operand, Operator, Period, Query, Select, Value};
pub use schema::{FieldType, Schema};
pub use sql::{Translation, all_columns, to_sql};

/// The longest text that is read, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;
/// The most clauses that one text may have.
pub const MAX_CLAUSES: usize = 100;
/// The most parts that a path may have when it is translated to SQL.
pub const MAX_DEPTH: usize = 32;
