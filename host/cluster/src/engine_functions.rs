//! The functions of the engine that plans of ours call, by name. Others are neither sent nor taken.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::functions::all_default_functions;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::functions_nested::all_default_nested_functions;
use datafusion::functions_window::all_default_window_functions;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

const SCALAR: &[&str] = &[
    "abs",
    "array_concat",
    "array_distinct",
    "array_element",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_length",
    "array_position",
    "array_reverse",
    "array_slice",
    "character_length",
    "coalesce",
    "contains",
    "date_part",
    "empty",
    "ends_with",
    "flatten",
    "generate_series",
    "get_field",
    "greatest",
    "isnan",
    "least",
    "lower",
    "make_array",
    "named_struct",
    "nullif",
    "octet_length",
    "random",
    "signum",
    "starts_with",
    "strpos",
    "upper",
    "uuid",
];

const AGGREGATE: &[&str] = &[
    "approx_distinct",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "last_value",
    "max",
    "min",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

const WINDOW: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

static SCALARS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = all_default_functions().into_iter().chain(all_default_nested_functions());
    all.map(|function| (function.name().to_owned(), function))
        .filter(|(name, _)| SCALAR.contains(&name.as_str()))
        .collect()
});

static AGGREGATES: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let all = all_default_aggregate_functions().into_iter();
    all.map(|function| (function.name().to_owned(), function))
        .filter(|(name, _)| AGGREGATE.contains(&name.as_str()))
        .collect()
});

static WINDOWS: LazyLock<HashMap<String, Arc<WindowUDF>>> = LazyLock::new(|| {
    let all = all_default_window_functions().into_iter();
    all.map(|function| (function.name().to_owned(), function))
        .filter(|(name, _)| WINDOW.contains(&name.as_str()))
        .collect()
});

/// A function of the engine that may stand in a plan.
pub(crate) fn scalar(name: &str) -> Option<&'static Arc<ScalarUDF>> {
    SCALARS.get(name)
}

/// An aggregate of the engine that may stand in a plan.
pub(crate) fn aggregate(name: &str) -> Option<&'static Arc<AggregateUDF>> {
    AGGREGATES.get(name)
}

/// A window function of the engine that may stand in a plan. There are none of ours.
pub(crate) fn window(name: &str) -> Option<&'static Arc<WindowUDF>> {
    WINDOWS.get(name)
}
