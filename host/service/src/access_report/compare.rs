//! Whether a reader reaches more through an endpoint than before.
//!
//! Of a source, refused rows are the least, then those that all keys bind, then those that fewer keys bind, then all rows.
//! A key that is bound by another field is neither more nor less, and is told as more: somebody must look at it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{KeyPath, RowPolicy};
use uuid::Uuid;

use super::plans::{Piece, PlannedEndpoint, PlannedPiece};

/// How what binds rows is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// By the fields: of tokens that differ in the values that they pin.
    Keys,
    /// By the fields with their values: of a reader that stands for itself. Another value is other rows.
    Values,
}

/// What a reader reaches through an endpoint.
#[derive(Debug, Default)]
pub(super) struct Reach {
    sources: BTreeMap<Uuid, Reached>,
    /// The sources that statements of the endpoint read and that the reader is refused.
    refused: BTreeSet<Uuid>,
}

/// What a reader reaches of a source.
#[derive(Debug)]
struct Reached {
    name: String,
    /// Whether all of its rows are for all tenants.
    shared: bool,
    /// The conditions on the rows; none where all rows are read.
    keys: BTreeSet<String>,
    columns: BTreeSet<String>,
}

/// How much more is read of a source than before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wider {
    /// The source.
    pub(super) source: String,
    /// What it was and what it is now, for readers.
    pub(super) change: String,
}

impl Reach {
    /// What a reader reaches through a planned endpoint. `writes_text` says whether statements over its granted tables are
    /// written at run time: by callers, or by the code of a component, which has fixed statements, too.
    pub(super) fn of(planned: &PlannedEndpoint, is_code: bool, adhoc: bool, told: Told) -> Self {
        let mut reach = Self::default();
        let is_run = |piece: &&PlannedPiece| match piece.piece {
            Piece::Grant => adhoc || is_code,
            Piece::Body => true,
            Piece::Statement => is_code,
        };
        for piece in planned.pieces.iter().filter(is_run) {
            // One source that is refused refuses the statement, and one mistake fails it.
            let gives_rows = planned.refused.is_none() && piece.refusal().is_none() && piece.failure.is_none();
            for source in &piece.sources {
                match &source.rows {
                    Ok(policy) if gives_rows => {
                        let reached = reach.sources.entry(source.id).or_insert_with(|| Reached {
                            name: source.name.clone(),
                            shared: source.shared,
                            keys: keys_of(policy.as_ref(), told),
                            columns: BTreeSet::new(),
                        });
                        reached.columns.extend(source.columns.iter().cloned());
                    }
                    _ => drop(reach.refused.insert(source.id)),
                }
            }
        }
        reach
    }

    /// What this reaches more than another, by source.
    pub(super) fn wider_than(&self, before: &Self) -> Vec<Wider> {
        let compared = self.sources.iter().filter_map(|(id, now)| {
            let change = match before.sources.get(id) {
                Some(was) if !now.keys.is_superset(&was.keys) => {
                    format!("was {}, now {}", shown(was), shown(now))
                }
                Some(was) => {
                    let more: Vec<&str> =
                        now.columns.iter().filter(|column| !has(&was.columns, column)).map(String::as_str).collect();
                    match more.len() {
                        0 => return None,
                        1 => format!("also the column {}", more.join(", ")),
                        _ => format!("also the columns {}", more.join(", ")),
                    }
                }
                None if before.refused.contains(id) => format!("was refused, now {}", shown(now)),
                None => format!("was not read, now {}", shown(now)),
            };
            Some(Wider { source: now.name.clone(), change })
        });
        let mut wider: Vec<Wider> = compared.collect();
        wider.sort_by(|one, other| one.source.cmp(&other.source));
        wider
    }
}

fn keys_of(policy: Option<&RowPolicy>, told: Told) -> BTreeSet<String> {
    let condition = |(path, value): &(KeyPath, String)| match told {
        Told::Keys => format!("{path} = own"),
        Told::Values => format!("{path} = '{value}'"),
    };
    policy.into_iter().flat_map(|policy| &policy.values).map(condition).collect()
}

/// Which rows are read by tokens that differ in the values that they pin.
fn shown(reached: &Reached) -> String {
    let Reached { keys, shared, .. } = reached;
    match (keys.is_empty(), shared) {
        (true, true) => "ALL (shared)".to_owned(),
        (true, false) => "ALL".to_owned(),
        (false, _) => keys.iter().map(String::as_str).collect::<Vec<_>>().join(" AND "),
    }
}

/// Whether a column or a field is read, itself or with the record around it.
fn has(columns: &BTreeSet<String>, column: &str) -> bool {
    let ends = column.match_indices('.').map(|(end, _)| end).chain([column.len()]);
    ends.filter_map(|end| column.get(..end)).any(|around| columns.contains(around))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_model::NotOfTenant;

    use super::*;
    use crate::access_report::plans::PlannedSource;
    use crate::supposed::RowsOf;

    fn keyed(paths: &[&str]) -> RowsOf {
        let values = paths.iter().map(|path| (path.parse().unwrap(), "abc".to_owned())).collect();
        Ok(Some(RowPolicy { values }))
    }

    fn reach(sources: &[(&str, RowsOf, &[&str])]) -> Reach {
        let source = |(name, rows, columns): &(&str, RowsOf, &[&str])| PlannedSource {
            id: Uuid::from_u128(name.bytes().fold(0, |id, byte| id * 256 + u128::from(byte))),
            name: (*name).to_owned(),
            rows: rows.clone(),
            shared: false,
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        };
        let piece = PlannedPiece {
            piece: Piece::Body,
            name: "default".to_owned(),
            parameters: Vec::new(),
            sources: sources.iter().map(source).collect(),
            failure: None,
        };
        Reach::of(&PlannedEndpoint { refused: None, pieces: vec![piece] }, false, false, Told::Keys)
    }

    fn change(before: &Reach, after: &Reach) -> Option<String> {
        after.wider_than(before).pop().map(|wider| wider.change)
    }

    #[test]
    fn rows_are_ordered_by_the_keys_that_bind_them() {
        let refused = || reach(&[("a", Err(NotOfTenant::Undeclared), &["id"])]);
        let both = || reach(&[("a", keyed(&["project", "team"]), &["id"])]);
        let one = || reach(&[("a", keyed(&["project"]), &["id"])]);
        let other = || reach(&[("a", keyed(&["metadata.project"]), &["id"])]);
        let all = || reach(&[("a", Ok(None), &["id"])]);
        for (before, after, told) in [
            (Reach::default(), all(), "was not read, now ALL"),
            (refused(), one(), "was refused, now project = own"),
            (both(), one(), "was project = own AND team = own, now project = own"),
            (one(), all(), "was project = own, now ALL"),
            (one(), other(), "was project = own, now metadata.project = own"),
        ] {
            assert_eq!(change(&before, &after).as_deref(), Some(told));
        }
        for (before, after) in
            [(all(), one()), (one(), both()), (one(), one()), (all(), refused()), (one(), Reach::default())]
        {
            assert_eq!(change(&before, &after), None);
        }
    }

    #[test]
    fn columns_are_compared_where_rows_are_the_same() {
        let of = |columns: &[&str]| reach(&[("a", keyed(&["project"]), columns)]);
        assert_eq!(change(&of(&["id"]), &of(&["id", "mail", "name"])).as_deref(), Some("also the columns mail, name"));
        assert_eq!(change(&of(&["metadata.a"]), &of(&["metadata"])).as_deref(), Some("also the column metadata"));
        assert_eq!(change(&of(&["metadata"]), &of(&["metadata.a.b"])), None);
        assert_eq!(change(&of(&["id", "mail"]), &of(&["id"])), None);
    }

    #[test]
    fn a_statement_of_which_one_source_is_refused_gives_nothing_of_the_others() {
        let part = |rows: RowsOf| reach(&[("a", keyed(&["project"]), &["id"]), ("b", rows, &["mail"])]);
        let (before, after) = (part(Err(NotOfTenant::NoKey)), part(Ok(None)));
        assert_eq!(before.sources.len(), 0);
        let told: Vec<String> =
            after.wider_than(&before).into_iter().map(|w| format!("{}: {}", w.source, w.change)).collect();
        assert_eq!(told, ["a: was refused, now project = own", "b: was refused, now ALL"]);
    }
}
