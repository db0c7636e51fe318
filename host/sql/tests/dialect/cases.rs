//! The tests of the dialect, for each engine that runs them: one that runs plans as they are, one that encodes and decodes
//! them, and one that has them cut. Whoever includes this has the modules `engine` and `support` beside it.

mod aggregates;
mod clauses;
mod comparisons;
mod correlated;
mod document;
mod endpoints;
mod floats;
mod functions;
mod googlesql;
mod grants;
mod limits;
mod lineage;
mod names;
mod narrow;
mod nullable_constants;
mod numeric;
mod operators;
mod ranges;
mod remarks;
mod shared_parts;
mod subqueries;
mod tables;
mod times;
mod unite;
mod unnest;
mod values;
mod windows;
