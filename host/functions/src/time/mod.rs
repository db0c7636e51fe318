//! Kernels of time: points in time, INTERVALs, time zones, formats.

mod batches;
pub(crate) mod calendar;
mod elements;
pub(crate) mod interval;
mod parsed_date;
pub(crate) mod points;
mod read_elements;
mod strings;
pub(crate) mod zone;

pub(crate) use calendar::add_months;
pub use calendar::{DAY, Part, SECOND};
pub(crate) use interval::divided;
pub use interval::{interval_range, interval_texts};
pub(crate) use points::length as interval_length;
pub use zone::Zone;
pub(crate) use zone::with_name;
