//! Logflare Query Language (LQL): what people type into a log search box, for instance `m.status:>=500 -path:~health
//! c:count(*) c:group_by(t::hour)`.
//!
//! [`parse`] splits a text into clauses (`syntax`, an ordered-choice grammar) and converts the clauses to typed rules
//! ([`Query`]). [`to_sql`] makes a SQL syntax tree of the rules. The tree contains what the caller wrote only as
//! literal values and quoted names; SQL is never assembled as text.
//!
//! Input may be hostile. The length of a text, the number of its clauses and the depth of its paths are limited, no
//! function recurses on the input, and every error says what is wrong, where, and what is allowed.
//!
//! The modules in layers, lowest first: `error`, `cursor`; `name`, `moment`, `shorthand`, `rules`, `schema`; `cast`, `value`,
//! `path`, `tree`; `syntax`, `condition`; `parse`, `sql`; `jsonl`.

#![cfg_attr(test, expect(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise does not hold"))]

mod cast;
mod condition;
mod cursor;
mod error;
mod jsonl;
mod moment;
mod name;
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
pub use name::{quoted, steps};
pub use parse::{Mode, parse, parse_at};
pub use rules::{Aggregate, Chart, Filter, Level, Literal, Modifiers, Operand, Operator, Period, Query, Select, Value};
pub use schema::{FieldType, Schema};
pub use sql::{Translation, all_columns, to_sql};

/// The longest accepted text, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;
/// The most clauses of a text.
pub const MAX_CLAUSES: usize = 100;
/// The most parts of a path that is translated to SQL.
pub const MAX_DEPTH: usize = 32;
