//! Telling a running statement to stop where it computes for long without letting go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::DataFusionError;
use tidegate_model::{Code, Failure};

/// A statement's stop sign. Dropping its [`crate::ResultStream`] ends a statement at the next
/// point where the engine lets go; some computations (a window over millions of rows, a subquery
/// over long arrays) come to no such point for seconds, and look at the sign instead. Copies are
/// the same sign.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Puts the sign up. It stays up.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once the sign is up. The failure reaches nobody: whoever wanted the rows is gone.
    pub(crate) fn check(&self) -> Result<(), DataFusionError> {
        if self.0.load(Ordering::Relaxed) {
            let failure = Failure::new(Code::Timeout, "the statement was stopped");
            return Err(DataFusionError::External(Box::new(failure)));
        }
        Ok(())
    }
}
