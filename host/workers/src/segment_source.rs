//! Where a worker finds the segments of its tasks.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use tidegate_model::Failure;
use tidegate_store::{HeldSegments, SegmentName, Store};

/// Segments by name and the name of their source: a folder, an object store.
pub trait SegmentSource: fmt::Debug + Send + Sync {
    /// Holds these segments, so that they can be read as long as the result lives. What it does not have is missing in the
    /// result, and then the task that reads it fails.
    fn hold(&self, segments: Vec<(Arc<str>, SegmentName)>) -> BoxFuture<'_, Result<HeldSegments, Failure>>;
}

/// The segments of a store that is open in this process.
impl SegmentSource for Store {
    fn hold(&self, segments: Vec<(Arc<str>, SegmentName)>) -> BoxFuture<'_, Result<HeldSegments, Failure>> {
        let mut held = HeldSegments::default();
        for (source, name) in &segments {
            if let Ok(segment) = self.hold_segments(source, &[name.id]) {
                held.extend(segment);
            }
        }
        Box::pin(std::future::ready(Ok(held)))
    }
}
