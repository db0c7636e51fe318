//! The arrays of a FROM that reads nothing but arrays.

use std::borrow::Cow;

use sqlparser::ast::{Expr as Ast, Ident, JoinConstraint, JoinOperator, Select, TableFactor};

/// An array of a FROM clause: one `UNNEST`, or a path into an outer row.
pub(super) struct UnnestedArray<'a> {
    pub(super) array: Cow<'a, Ast>,
    pub(super) alias: Option<String>,
    /// The name of its position, with WITH OFFSET.
    pub(super) offset: Option<String>,
    /// Whether a row without elements is kept.
    pub(super) keep: bool,
    pub(super) on: Option<&'a Ast>,
}

/// The arrays of a FROM of nothing but UNNESTs and paths into an outer row (`FROM t.tags AS tag`); `None` of any other.
/// `of_outer` tells whether a name is a table alias of the outer query.
pub(super) fn unnested_arrays(select: &Select, of_outer: impl Fn(&str) -> bool) -> Option<Vec<UnnestedArray<'_>>> {
    let mut arrays = Vec::new();
    for table in &select.from {
        let joined = table.joins.iter().map(|join| {
            let (keep, on) = match &join.join_operator {
                JoinOperator::CrossJoin(on) | JoinOperator::Inner(on) | JoinOperator::Join(on) => (false, on),
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (true, on),
                _ => return None,
            };
            match on {
                JoinConstraint::None => Some((&join.relation, keep, None)),
                JoinConstraint::On(on) => Some((&join.relation, keep, Some(on))),
                _ => None,
            }
        });
        for factor in std::iter::once(Some((&table.relation, false, None))).chain(joined) {
            let (relation, keep, on) = factor?;
            let (array, alias, offset) = match relation {
                TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, .. } => {
                    let [array] = array_exprs.as_slice() else { return None };
                    let named =
                        || with_offset_alias.as_ref().map_or_else(|| "offset".to_owned(), |name| name.value.clone());
                    (Cow::Borrowed(array), alias, with_offset.then(named))
                }
                TableFactor::Table { name, alias, args: None, version: None, .. } if name.0.len() > 1 => {
                    let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                    if parts.len() < name.0.len() || !parts.first().is_some_and(|first| of_outer(&first.value)) {
                        return None;
                    }
                    (Cow::Owned(Ast::CompoundIdentifier(parts)), alias, None)
                }
                _ => return None,
            };
            let implied = || match array.as_ref() {
                Ast::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()),
                _ => None,
            };
            let is_path = matches!(relation, TableFactor::Table { .. });
            let alias = alias.as_ref().map(|alias| alias.name.value.clone());
            let alias = alias.or_else(|| implied().filter(|_| is_path));
            arrays.push(UnnestedArray { array, alias, offset, keep, on });
        }
    }
    Some(arrays)
}
