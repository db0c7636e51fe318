//! Which projects rows have that lie together: those of a run of a segment, or of a batch in memory. A query of one project
//! leaves out what cannot have it.

use std::collections::BTreeSet;

use datafusion::arrow::array::{ArrayRef, AsArray};
use serde::{Deserialize, Serialize};

/// The most projects that are listed by name. With more of them there are the smallest and the largest.
const LISTED_PROJECTS: usize = 64;

/// A longer project makes the projects unknown: catalog and footers hold their names.
pub(crate) const LONGEST_PROJECT: usize = 256;

/// Which values of `project` the rows of a run have. Rows without a project are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunProjects {
    /// All of them.
    Listed(Vec<String>),
    /// The smallest and the largest.
    Between(String, String),
    /// Not known: any.
    Any,
}

impl RunProjects {
    /// Of these names.
    pub(crate) fn of_names(names: BTreeSet<String>) -> RunProjects {
        if names.len() <= LISTED_PROJECTS {
            return RunProjects::Listed(names.into_iter().collect());
        }
        match (names.first(), names.last()) {
            (Some(least), Some(most)) => RunProjects::Between(least.clone(), most.clone()),
            _ => RunProjects::Any,
        }
    }

    /// Of a column of projects; `None` if the rows have no such column.
    pub(crate) fn of_column(column: Option<&ArrayRef>) -> RunProjects {
        let Some(column) = column else { return RunProjects::Listed(Vec::new()) };
        let Some(texts) = column.as_string_view_opt() else { return RunProjects::Any };
        let mut names = BTreeSet::new();
        let mut last = None;
        for text in texts.iter().flatten() {
            if last == Some(text) {
                continue;
            }
            if text.len() > LONGEST_PROJECT {
                return RunProjects::Any;
            }
            names.insert(text);
            last = Some(text);
        }
        RunProjects::of_names(names.into_iter().map(str::to_owned).collect())
    }

    /// Of the rows of all of these.
    pub(crate) fn of_all<'r>(parts: impl IntoIterator<Item = &'r RunProjects>) -> RunProjects {
        let (mut names, mut is_range) = (BTreeSet::new(), false);
        for part in parts {
            match part {
                RunProjects::Listed(listed) => names.extend(listed.iter().cloned()),
                RunProjects::Between(least, most) => {
                    is_range = true;
                    names.extend([least.clone(), most.clone()]);
                }
                RunProjects::Any => return RunProjects::Any,
            }
        }
        match (is_range, names.first(), names.last()) {
            (true, Some(least), Some(most)) => RunProjects::Between(least.clone(), most.clone()),
            _ => RunProjects::of_names(names),
        }
    }

    /// Whether a row may have this value.
    pub(crate) fn may_have(&self, project: &str) -> bool {
        match self {
            RunProjects::Listed(held) => held.iter().any(|held| held == project),
            RunProjects::Between(least, most) => (least.as_str()..=most.as_str()).contains(&project),
            RunProjects::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    fn column(numbers: &[Option<u16>]) -> ArrayRef {
        Arc::new(numbers.iter().map(|number| number.map(|n| format!("p{n}"))).collect::<StringViewArray>())
    }

    #[test]
    fn what_is_not_short_text_is_unknown() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(RunProjects::of_column(Some(&numbers)), RunProjects::Any);
        let long: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(LONGEST_PROJECT + 1)]));
        assert_eq!(RunProjects::of_column(Some(&long)), RunProjects::Any);
        assert!(!RunProjects::of_column(None).may_have("p"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        /// No project of the rows is left out, however many there are and however often the rows are put together.
        #[test]
        fn what_rows_have_they_may_have(parts in prop::collection::vec(prop::collection::vec(prop::option::of(0_u16..300), 0..120), 0..6)) {
            let of_parts: Vec<RunProjects> = parts.iter().map(|part| RunProjects::of_column(Some(&column(part)))).collect();
            let of_all = RunProjects::of_all(&of_parts);
            for (part, of_part) in parts.iter().zip(&of_parts) {
                for number in part.iter().flatten() {
                    let name = format!("p{number}");
                    prop_assert!(of_part.may_have(&name) && of_all.may_have(&name));
                }
            }
            prop_assert!(!of_all.may_have("q"));
        }
    }
}
