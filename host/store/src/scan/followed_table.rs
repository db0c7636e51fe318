//! A source as a table of new rows, for statements that are followed.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use uuid::Uuid;

use crate::{
    field_names::{CALL, ROW},
    scan::table::{SourceTable, TableRows},
    source::{Snapshot, feed::ColumnsVersion},
    source_info::SourceInfo,
};

/// A source as a table of the rows that were committed after a snapshot. It has no rows of its own: a plan over it reads
/// those of the task that runs it, [`NewRows`](crate::NewRows), which is an extension of the session's configuration.
/// So one plan is run over each slice of new rows.
#[derive(Debug, Clone)]
pub struct FollowedTable {
    /// The columns of the snapshot, and last those of [`FollowedTable::PLACE`].
    pub table: Arc<dyn TableProvider>,
    /// The source.
    pub source: Uuid,
    /// The number of the last call whose rows the snapshot has. Rows of later calls are not in it.
    pub position: i64,
    /// Which columns the snapshot has.
    pub columns: ColumnsVersion,
    pub(crate) info: Arc<SourceInfo>,
    pub(crate) snapshot: Snapshot,
}

impl FollowedTable {
    /// The names of the columns with the place of the row, which are integers: the number of its call, and its own number
    /// in the call.
    pub const PLACE: [&str; 2] = [CALL, ROW];

    /// The table of new rows that goes with a snapshot of a source, as [`Store::table`](crate::Store::table) gives it.
    /// `None` if `table` is another one, or the source has a column with a name of [`Self::PLACE`].
    pub fn of(table: &dyn TableProvider) -> Option<FollowedTable> {
        let SourceTable { info, snapshot, .. } = table.downcast_ref()?;
        let Snapshot { source, position, .. } = *snapshot;
        if !snapshot.shape.is_placed() {
            return None;
        }
        let schema = snapshot.placed_schema();
        let rows = Snapshot { schema, memory: Vec::new(), segments: Arc::default(), ..snapshot.clone() };
        let table = Arc::new(SourceTable::of_rows(Arc::clone(info), rows, TableRows::Followed));
        let columns = ColumnsVersion(Arc::clone(&snapshot.source_shape));
        let (info, snapshot) = (Arc::clone(info), snapshot.clone());
        Some(FollowedTable { table, source, position, columns, info, snapshot })
    }
}
