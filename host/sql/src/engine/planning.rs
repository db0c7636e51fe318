//! What a plan may hold while it is made (`tidegate_functions::context::planning`).

pub(crate) use tidegate_functions::context::planning::{COLUMN, EXPRESSION, charge, charged, check};
