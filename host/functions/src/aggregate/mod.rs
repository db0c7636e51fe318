//! Aggregate functions, where the dialect or its limits differ from the engine's own.

pub(crate) mod collect;
pub(crate) mod count_distinct;
pub(crate) mod decimal_moments;
pub(crate) mod decimal_sum;
pub(crate) mod first;
pub(crate) mod floats;
pub(crate) mod having;
pub(crate) mod interval_sum;
mod making;
mod quantile_groups;
mod quantile_pick;
mod quantile_values;
pub(crate) mod quantiles;
mod recomputed;
pub(crate) mod safe;
mod seen_texts;
pub(crate) mod sketches;
pub(crate) mod sum;
mod text_set;
pub(crate) mod top;
pub(crate) mod watched;

pub use collect::collecting;
pub use count_distinct::count_distinct;
pub use decimal_moments::decimal_moment;
pub use decimal_sum::decimal_sum;
pub use first::first;
pub use floats::{FloatAggregate, of_floats};
pub use having::having;
pub use interval_sum::interval_sum;
pub use quantiles::{exact_percentile, percentile, quantiles};
pub use safe::safe;
pub use sketches::{merged_quantile_sketch, merged_sketch, quantile_sketch, sketch};
pub use sum::whole_sum;
pub use top::top;
pub use watched::{WindowResults, watched};
