//! What runs the stages of statements.

use std::fmt;
use std::sync::Arc;

use datafusion_distributed::ChannelResolver;

/// What runs the stages of statements: in this process, or on other machines.
pub trait StageWorkers: fmt::Debug + Send + Sync {
    /// The workers that a statement may use that begins now.
    fn list(&self) -> StageList;
}

/// The workers of a statement, each of which its plan names by its place here.
#[derive(Clone)]
pub struct StageList {
    /// Their names, by which segments are shared out.
    pub names: Vec<Arc<str>>,
    /// The way to them.
    pub channels: Arc<dyn ChannelResolver + Send + Sync>,
}

impl fmt::Debug for StageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageList").field("names", &self.names).finish_non_exhaustive()
    }
}
