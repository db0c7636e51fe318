//! Segments that a task may read, held for as long as it runs.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::{physical_plan::FileGroup, source::DataSourceExec},
    physical_plan::ExecutionPlan,
};
use uuid::Uuid;

use crate::{
    scan::{description::SegmentName, segment_reader::SegmentOfFile, segment_scan::SegmentScan},
    segment::handle::Segment,
};

/// Segments whose files stay until this is dropped.
#[derive(Debug, Clone, Default)]
pub struct HeldSegments {
    segments: HashMap<Uuid, Arc<Segment>>,
}

impl HeldSegments {
    pub(crate) fn new(segments: impl IntoIterator<Item = Arc<Segment>>) -> HeldSegments {
        HeldSegments { segments: segments.into_iter().map(|segment| (segment.id, segment)).collect() }
    }

    /// The segments that a plan reads.
    pub fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> HeldSegments {
        let mut segments = HashMap::new();
        // The closure never fails, so neither does the walk.
        let _ = plan.apply(|node| {
            let files = scan_of(node.as_ref()).into_iter().flat_map(|scan| &scan.files().file_groups);
            for SegmentOfFile(segment) in files.flat_map(FileGroup::iter).filter_map(|file| file.extension()) {
                segments.insert(segment.id, Arc::clone(segment));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        HeldSegments { segments }
    }

    /// Those of them that are named.
    pub fn only<'n>(&self, names: impl IntoIterator<Item = &'n SegmentName>) -> HeldSegments {
        HeldSegments::new(names.into_iter().filter_map(|name| self.get(name)).map(Arc::clone))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds those of another one.
    pub fn extend(&mut self, other: HeldSegments) {
        self.segments.extend(other.segments);
    }

    pub(crate) fn get(&self, name: &SegmentName) -> Option<&Arc<Segment>> {
        self.segments.get(&name.id).filter(|segment| SegmentName::of(segment) == *name)
    }
}

/// The scan of segments that an operator is, if it is one.
pub(crate) fn scan_of(plan: &dyn ExecutionPlan) -> Option<&SegmentScan> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()
}
