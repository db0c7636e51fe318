//! Failures of Tidegate on their way through the engine.

use datafusion::error::DataFusionError;
use tidegate_model::{Code, Failure};

use super::current;

/// The engine's error that carries a failure. Most of the engine hands it on as it is; a scan that evaluates a filter
/// keeps only its text, so the context of a running statement keeps the failure too. While planning it does not: what
/// cannot be folded is computed, and may fail, when the statement runs.
pub fn failed(failure: Failure) -> DataFusionError {
    current(|context| {
        if context.is_running() {
            context.keep_failure(failure.clone());
        }
    });
    DataFusionError::External(Box::new(failure))
}

/// The error of a function that has no result for its arguments.
pub fn value_error(message: impl Into<String>) -> DataFusionError {
    failed(Failure::new(Code::InvalidValue, message))
}
