//! Names that no stored record ever had.
//!
//! Such a name is NULL and no error: the field may come with the next record. It may be misspelt all the same, so
//! it is told to the author of a saved query, and to a caller with the rows.

use sqlparser::ast::Ident;
use tidegate_model::{Code, Failure, nearest};

use super::scope::Scope;
use crate::fail::{fail, place_of};

/// Shorter names are near to too many others to be told as misspelt. In characters.
const SHORTEST: usize = 4;

/// How many names that stand alone are told at most.
const MOST_ALONE: usize = 8;

/// The names of one resolution that no record ever had.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// All such names; `None` where nobody asked for them.
    all: Option<Vec<Failure>>,
    /// Whether a source was read that may have no rows yet: any name may come then.
    empty_source: bool,
    /// Names without a table alias in front. They are told with the rows: `alias.name` says where the name is looked
    /// up, while a bare name may be meant as a column that the tables do not have.
    alone: Vec<Failure>,
}

/// How many remarks there were at some time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    all: usize,
    alone: usize,
}

impl Remarks {
    /// Remarks of which all are kept, for [`Remarks::into_all`].
    pub(super) fn of_all() -> Self {
        Self { all: Some(Vec::new()), ..Self::default() }
    }

    /// Whether all remarks are kept.
    pub(super) fn keeps_all(&self) -> bool {
        self.all.is_some()
    }

    /// Notes that a source may have no rows yet.
    pub(super) fn note_empty_source(&mut self) {
        self.empty_source = true;
    }

    /// Notes a name; `known` are the names that records have had in its place.
    pub(super) fn absent<'n>(&mut self, name: &Ident, known: impl IntoIterator<Item = &'n str>) {
        if let Some(all) = &mut self.all
            && let near = near(name, known)
            && (near.is_some() || !self.empty_source)
        {
            push_new(all, never_seen(name, near));
        }
    }

    /// Notes a name that stands alone, which could be a column of anything in scope.
    pub(super) fn absent_alone(&mut self, name: &Ident, scope: &Scope<'_>) {
        if self.alone.len() < MOST_ALONE && self.all.is_none() {
            push_new(&mut self.alone, never_seen(name, near(name, scope.all_names())));
        }
        self.absent(name, std::iter::once_with(|| scope.all_names()).flatten());
    }

    /// How many remarks there are, for [`Remarks::forget`].
    pub(super) fn mark(&self) -> Mark {
        Mark { all: self.all.as_ref().map_or(0, Vec::len), alone: self.alone.len() }
    }

    /// Forgets what came after the mark: it is about a text that is not the caller's.
    pub(super) fn forget(&mut self, mark: Mark) {
        if let Some(all) = &mut self.all {
            all.truncate(mark.all);
        }
        self.alone.truncate(mark.alone);
    }

    /// All names, with the nearest one that has been seen. Of sources that have no rows yet, only those that are near
    /// to another name.
    pub(super) fn into_all(self) -> Vec<Failure> {
        self.all.unwrap_or_default()
    }

    /// The first names that stand alone; none where all remarks are kept, which are the same and more.
    pub(super) fn into_alone(self) -> Vec<Failure> {
        self.alone
    }
}

fn push_new(remarks: &mut Vec<Failure>, remark: Failure) {
    if !remarks.contains(&remark) {
        remarks.push(remark);
    }
}

fn near<'n>(name: &Ident, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    nearest(&name.value, known).filter(|_| name.value.chars().count() >= SHORTEST)
}

fn never_seen(name: &Ident, near: Option<&str>) -> Failure {
    let mut message = format!("no log has had {} so far, and it is NULL", name.value);
    if let Some(near) = near {
        message.push_str(&format!("; did you mean {near}?"));
    }
    fail(Code::UnknownColumn, message, place_of(name.span)).about(&name.value)
}
