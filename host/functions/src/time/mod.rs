//! Kernels of time: points in time, INTERVALs, time zones, formats.

mod batches;
pub(crate) mod calendar;
mod elements;
pub(crate) mod interval;
mod parsed_date;
pub(crate) mod points;
pub(crate) mod range;
mod read_elements;
mod strings;
pub(crate) mod zone;

pub use calendar::{DAY, Part, SECOND};
pub(crate) use interval::divided;
pub use interval::{interval_range, interval_texts};
pub use range::{range_bounds, range_parts, range_texts};
pub use zone::Zone;
pub(crate) use zone::with_name;
