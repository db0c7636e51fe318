//! Under which conditions a version of an endpoint is saved.

use std::collections::BTreeMap;

use uuid::Uuid;

/// How a version of an endpoint is saved.
#[derive(Debug, Default)]
pub struct SaveRequest<'a> {
    /// The endpoint that gets a new version; none for a new endpoint.
    pub id: Option<Uuid>,
    /// Who saves it.
    pub author: &'a str,
    /// What the names of its tables meant in the version before. It holds for names that no table has now, and for all
    /// names where the query stays the same.
    pub known: BTreeMap<String, Uuid>,
    /// Whether the query stays the same.
    pub same_query: bool,
    /// The version that was changed. If there is a newer one by now, the request is refused.
    pub from: Option<i64>,
    /// The alert that gets another name: the former name and the new one. It keeps its secret.
    pub renamed_alert: Option<(&'a str, &'a str)>,
    /// The alert that is deleted or made anew. A secret that is kept for an alert of its name, which a former version had,
    /// is forgotten in the same transaction.
    pub forgotten_alert: Option<&'a str>,
    /// Whether a version is refused through which tokens read more than before.
    pub refuse_wider: bool,
    /// Whether an author saves it, who is told what [`crate::workbench::Workbench::check`] remarks, too.
    pub for_author: bool,
    /// Whether a version with warnings is refused.
    pub strict: bool,
    /// Whether sources that the statements name and that do not exist are made before the version is saved, or taken to be
    /// there where it is only checked.
    pub make_sources: bool,
}
