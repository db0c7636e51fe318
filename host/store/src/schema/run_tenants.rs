//! Which tenants rows have that lie together: those of a run of a segment, or of a batch in memory. A query of one tenant
//! leaves out what cannot have it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The most tenants that are listed by name. With more of them there are the smallest and the largest.
const LISTED_TENANTS: usize = 64;

/// A longer tenant makes the tenants unknown: catalog and footers hold their names.
pub(crate) const LONGEST_TENANT: usize = 256;

/// Which tenants the rows of a run have: their values at a [`TenantPath`](crate::schema::tenant_path::TenantPath). Rows
/// without a value are not listed. The serialized form is in catalogs and footers and must stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunTenants {
    /// All of them.
    Listed(Vec<String>),
    /// The smallest and the largest.
    Between(String, String),
    /// Not known: any.
    Any,
}

impl RunTenants {
    /// Of these names.
    pub(crate) fn of_names(names: BTreeSet<String>) -> RunTenants {
        if names.len() <= LISTED_TENANTS {
            return RunTenants::Listed(names.into_iter().collect());
        }
        match (names.first(), names.last()) {
            (Some(least), Some(most)) => RunTenants::Between(least.clone(), most.clone()),
            _ => RunTenants::Any,
        }
    }

    /// Of these texts.
    pub(crate) fn of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> RunTenants {
        let mut names = BTreeSet::new();
        let mut last = None;
        for text in texts {
            if last == Some(text) {
                continue;
            }
            if text.len() > LONGEST_TENANT {
                return RunTenants::Any;
            }
            names.insert(text);
            last = Some(text);
        }
        RunTenants::of_names(names.into_iter().map(str::to_owned).collect())
    }

    /// Of the rows of all of these.
    pub(crate) fn of_all<'r>(parts: impl IntoIterator<Item = &'r RunTenants>) -> RunTenants {
        let (mut names, mut is_range) = (BTreeSet::new(), false);
        for part in parts {
            match part {
                RunTenants::Listed(listed) => names.extend(listed.iter().cloned()),
                RunTenants::Between(least, most) => {
                    is_range = true;
                    names.extend([least.clone(), most.clone()]);
                }
                RunTenants::Any => return RunTenants::Any,
            }
        }
        match (is_range, names.first(), names.last()) {
            (true, Some(least), Some(most)) => RunTenants::Between(least.clone(), most.clone()),
            _ => RunTenants::of_names(names),
        }
    }

    /// Whether a row may have this value.
    pub(crate) fn may_have(&self, tenant: &str) -> bool {
        match self {
            RunTenants::Listed(held) => held.iter().any(|held| held == tenant),
            RunTenants::Between(least, most) => (least.as_str()..=most.as_str()).contains(&tenant),
            RunTenants::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_text_is_unknown() {
        let long = "x".repeat(LONGEST_TENANT + 1);
        assert_eq!(RunTenants::of_texts(["p", &long]), RunTenants::Any);
        assert!(!RunTenants::of_texts([]).may_have("p"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        /// No tenant of the rows is left out, however many there are and however often the rows are put together.
        #[test]
        fn what_rows_have_they_may_have(parts in prop::collection::vec(prop::collection::vec(0_u16..300, 0..120), 0..6)) {
            let named = |part: &Vec<u16>| part.iter().map(|n| format!("p{n}")).collect::<Vec<_>>();
            let parts: Vec<Vec<String>> = parts.iter().map(named).collect();
            let of_parts: Vec<RunTenants> =
                parts.iter().map(|part| RunTenants::of_texts(part.iter().map(String::as_str))).collect();
            let of_all = RunTenants::of_all(&of_parts);
            for (part, of_part) in parts.iter().zip(&of_parts) {
                for name in part {
                    prop_assert!(of_part.may_have(name) && of_all.may_have(name));
                }
            }
            prop_assert!(!of_all.may_have("q"));
        }
    }
}
