//! What runs the stages of statements.

use std::sync::Arc;

use datafusion_distributed::ChannelResolver;

/// What runs the stages of statements: in this process, or on other machines.
pub trait StageWorkers: std::fmt::Debug + Send + Sync {
    /// The names of the workers, by which segments are shared out.
    fn names(&self) -> Vec<Arc<str>>;

    /// The way to the workers for one statement. A worker is named by its place in the list of the statement.
    fn channels(self: Arc<Self>) -> Arc<dyn ChannelResolver + Send + Sync>;
}
