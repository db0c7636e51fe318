//! Runs: the parts of a segment that a query for one tenant reads, or skips as a whole.
//!
//! A run is a sequence of row groups of the file. Its rows are those of one tenant, or of several tenants that have
//! few rows each; they are sorted newest first. So a query that is bound to one tenant reads one run of each segment
//! in order, and stops early like in a segment without runs. A segment whose rows have no tenant is one run. Which field has
//! the tenant, the segment says ([`TenantPath`](crate::schema::tenant_path::TenantPath)).

use serde::{Deserialize, Serialize};

use crate::schema::run_tenants::RunTenants;

/// One run. The serialized form is in catalogs and footers and must stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) rows: usize,
    /// How many row groups it has. They follow those of the run before it.
    pub(crate) groups: usize,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    #[serde(rename = "projects")]
    pub(crate) tenants: RunTenants,
}
