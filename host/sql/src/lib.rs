//! BigQuery-dialect SQL on DataFusion: text -> syntax tree -> resolved plan -> rows.
//!
//! DataFusion's own SQL front end cannot carry the dialect: it has no correlated `UNNEST`, lets
//! columns win over aliases in `GROUP BY`, and knows tables by name in one shared catalog. So
//! this crate reads the syntax tree itself, in one pass with real scopes, and builds the logical
//! plan directly. Its layers, from the lowest:
//!
//! - `types` are the types of the dialect, and `typed` is an expression with its type;
//! - `text` reads the text with limits and takes exactly one query, nothing else; `saved_query` knows the
//!   parts of a saved query and the names in them, `catalog` what a statement may read;
//! - `exprs` answers questions about expressions, and `barrier` keeps them from rows that are left out below;
//! - `typing` converts and compares values;
//! - `library` builds calls of functions: an allow-list, each function made of the engine's operators where those mean
//!   the same, so that filters still reach the storage, else of the kernels of `tidegate_functions`;
//! - `resolve` gives every name its meaning: tables from the grants (there is nothing else to
//!   find), columns, aliases, elements of `UNNEST`, parameters as typed values;
//! - `engine` runs a plan under limits and streams its rows: its `guards` bound it, its `shortcuts` make it quicker, and its
//!   `fixes` work around what is wrong in DataFusion, until that is mended;
//! - `lineage` tells which columns of which tables a statement reads.
//!
//! In a resolved plan every column has a name of its own (`c1`, `c2`, ...) and no qualifier, so
//! the engine never resolves a name again.

mod barrier;
mod catalog;
mod engine;
mod exprs;
mod fail;
mod library;
mod lineage;
mod piece_names;
mod resolve;
mod saved_query;
mod shown;
mod text;
mod typed;
mod types;
mod typing;
mod wanted;

pub use catalog::{Binding, NoSources, SavedTable, Sources, StoredTable, Tables};
pub use engine::{
    Carried, Carrier, CarrierReport, CostCounter, Counted, Engine, EngineOptions, ExplainedPlan, Finish, Narrow,
    OperatorCost, OperatorRows, OwnOperator, OwnOperators, PartReader, Placed, Plan, PreparedOperators, PreparedPlan,
    ResultStream, RunBounds, StatementCost, Wrapper, each_batch, inside, wrapped,
};
pub use fail::own_failure;
pub use lineage::Reads;
pub use resolve::functions;
pub use saved_query::SavedQuery;
pub use shown::{shown_array, shown_type};
pub use tidegate_functions::context::Stop;
pub use tidegate_functions::encode::{ColumnEncoder, Style};
pub use types::{Field, Type};
pub use wanted::FieldPath;
