//! Why a plan does not travel.

use datafusion::error::DataFusionError;

/// Why a plan is not sent, or not taken.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It has something that does not travel: the statement runs where it is.
    #[error("the plan cannot be sent: {0}")]
    Unsendable(String),
    /// What came is not a plan that may run here.
    #[error("the plan is refused: {0}")]
    Refused(String),
}

impl PlanError {
    /// As an error of the engine, through whose functions it passes.
    pub(crate) fn into_engine(self) -> DataFusionError {
        DataFusionError::External(Box::new(self))
    }

    /// From an error of the engine: one of ours that passed through it, or its own text.
    pub(crate) fn from_engine(error: &DataFusionError, kind: fn(String) -> Self) -> Self {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = source {
            match error.downcast_ref::<Self>() {
                Some(Self::Unsendable(why)) => return Self::Unsendable(why.clone()),
                Some(Self::Refused(why)) => return Self::Refused(why.clone()),
                None => source = error.source(),
            }
        }
        kind(error.to_string())
    }
}

/// What cannot be sent, as an error of the engine.
pub(crate) fn unsendable<T>(why: impl Into<String>) -> datafusion::error::Result<T> {
    Err(PlanError::Unsendable(why.into()).into_engine())
}

/// What is refused, as an error of the engine.
pub(crate) fn refused<T>(why: impl Into<String>) -> datafusion::error::Result<T> {
    Err(PlanError::Refused(why.into()).into_engine())
}
