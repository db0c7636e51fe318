//! Lines for the operator's log, those of panics among them.

use std::fmt::Arguments;

use crate::contract::{Level, record_line};

/// What the macros do.
#[doc(hidden)]
#[inline(always)]
pub fn log(level: Level, line: Arguments<'_>) {
    // A line without values costs no formatting code in the component.
    match line.as_str() {
        Some(line) => record_line(level, line),
        None => record_line(level, &line.to_string()),
    }
}

/// Writes a line of level `debug`: see [`info!`](crate::info).
#[macro_export]
macro_rules! debug {
    ($($line:tt)+) => { $crate::log($crate::contract::Level::Debug, ::core::format_args!($($line)+)) };
}

/// Writes a line of level `info` to the operator's log, as [`format!`] would make it.
///
/// The operator sees it with the request that it belongs to; the caller never does. A line is cut after 2048 bytes, and
/// after `component_log_lines` lines of a request (100 unless said otherwise) the rest is dropped.
///
/// ```no_run
/// # let rows = 3;
/// tidegate_sdk::info!("nothing was slow");
/// tidegate_sdk::warn!("{rows} rows have no status");
/// ```
///
/// A line with values brings formatting code into the component, some 10 KB once.
#[macro_export]
macro_rules! info {
    ($($line:tt)+) => { $crate::log($crate::contract::Level::Info, ::core::format_args!($($line)+)) };
}

/// Writes a line of level `warn`: see [`info!`](crate::info).
#[macro_export]
macro_rules! warn {
    ($($line:tt)+) => { $crate::log($crate::contract::Level::Warn, ::core::format_args!($($line)+)) };
}

/// Writes a line of level `error`: see [`info!`](crate::info).
#[macro_export]
macro_rules! error {
    ($($line:tt)+) => { $crate::log($crate::contract::Level::Error, ::core::format_args!($($line)+)) };
}

/// Makes a panic say where it was before it traps: without it, the operator sees a bare trap.
#[doc(hidden)]
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let mut line = String::from("panic: ");
        line.push_str(message);
        if let Some(place) = panic.location() {
            line.push_str(" at ");
            line.push_str(place.file());
            line.push(':');
            line.push_str(&place.line().to_string());
        }
        record_line(Level::Error, &line);
    }));
}
