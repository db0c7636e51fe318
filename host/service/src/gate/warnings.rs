//! Warnings about saved queries whose text may not mean what its author believes.

use std::collections::BTreeMap;

use tidegate_model::{Failure, Manifest};
use tidegate_sql::{SavedQuery, Weak};
use uuid::Uuid;

use crate::failures::refused;

/// Warnings of parameters that would bind a tenant to nothing if a token fixed them: they only stand in for another one,
/// are only searched for in a text, or stand where they leave out no rows. To search is what a search box does, so it is
/// told where a call must have the parameter, or `fixed` says that a token fixes it; the last is told only then.
pub(super) fn weak_pins(
    manifest: &Manifest,
    saved: &SavedQuery,
    named: &BTreeMap<String, Uuid>,
    fixed: impl Fn(&str) -> bool,
) -> Vec<Failure> {
    let required = |name: &str| {
        manifest.parameters.iter().any(|own| own.required && own.name.eq_ignore_ascii_case(name)) || fixed(name)
    };
    let warning = |(name, weak, piece): (String, Weak, Option<&str>)| {
        let piece = piece.map_or_else(|| "the query".to_owned(), |table| format!("the granted table {table}"));
        let message = match weak {
            Weak::Default => format!(
                "{piece} takes @{name} only where another parameter is not sent, so that its sender chooses the rows: \
                 a token that fixes {name} cannot read it; write COALESCE(@{name}, ...)"
            ),
            Weak::Searched if required(&name) => format!(
                "{piece} only searches for @{name} in a text, where others may be named too: a token that fixes {name} \
                 reads only rows whose column {name} is what it fixes; write {name} = @{name} to say so for all"
            ),
            Weak::Loose if fixed(&name) => format!(
                "{piece} uses @{name} only where that does not leave out the rows of others: in a selected column, in one part \
                 of an OR, behind NOT or <>, or in the condition of an outer join; a token that fixes {name} cannot read it; \
                 write {name} = @{name}"
            ),
            Weak::Searched | Weak::Loose => return None,
        };
        Some(refused(message).about(name))
    };
    saved.weakly_bound(named.keys().map(String::as_str)).into_iter().filter_map(warning).collect()
}

/// A warning of a body that reads more than the granted tables: whoever wrote conditions into these may
/// believe that they hold for all that is answered.
pub(super) fn past_grants(saved: &SavedQuery, named: &BTreeMap<String, Uuid>) -> Option<Failure> {
    let grants = saved.tables();
    let past = saved.names_in_body(named.keys().map(String::as_str));
    if grants.is_empty() || past.is_empty() {
        return None;
    }
    let message = format!(
        "beside its granted tables ({}) the query reads {} itself: conditions of the grants do not hold for that",
        grants.join(", "),
        past.join(", ")
    );
    Some(refused(message).about(past.join(", ")))
}
