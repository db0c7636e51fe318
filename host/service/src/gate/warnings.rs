//! Warnings about saved queries whose text may not mean what its author believes.

use std::collections::BTreeMap;

use tidegate_sql::SavedQuery;
use uuid::Uuid;

use super::findings::{Findings, Part};
use crate::failures::refused;

/// Warns of a body that reads more than the granted tables: whoever wrote conditions into these may believe that they
/// hold for all that is answered. `named` are the tables that the query reads.
pub(super) fn warn_of_query(saved: &SavedQuery, named: &BTreeMap<String, Uuid>, findings: &mut Findings) {
    let grants = saved.tables();
    let past = saved.names_in_body(named.keys().map(String::as_str));
    if grants.is_empty() || past.is_empty() {
        return;
    }
    let message = format!(
        "beside its granted tables ({}) the query reads {} itself: conditions of the grants do not hold for that",
        grants.join(", "),
        past.join(", ")
    );
    findings.warn(Part::Query, refused(message).about(past.join(", ")));
}
