//! The keys of a GROUP BY, and the grouping sets that they make.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, col};
use sqlparser::ast::{Expr as Ast, GroupByExpr, GroupByWithModifier};
use tidegate_model::{Code, Failure, Position};

use crate::exprs::path_of;
use crate::fail::{Planning, Result, fail, invalid, place, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Item, nth_item};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::resolve::sorting::ordinal;
use crate::text::{GroupingCall, grouping_call, keys_of_set};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::plan_column;

/// The most grouping sets that one GROUP BY may unfold to: a CUBE of n keys has 2^n.
const MAX_SETS: usize = 64;

/// The bits of the number that the engine gives to a grouping set, which GROUPING reads as an INT64.
const MAX_BITS: usize = 63;

/// A group key and the plan column that carries it above the aggregation.
pub(super) struct Key {
    pub(super) expr: Expr,
    /// Columns that stand for the key in items of the select list that a GROUP BY names, by their number or alias.
    pub(super) names: Vec<String>,
    pub(super) ty: Type,
    pub(super) column: String,
}

/// The keys of a GROUP BY.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) keys: Vec<Key>,
    /// For ROLLUP, CUBE and GROUPING SETS: the keys of each set, by their indices.
    pub(super) sets: Option<Vec<Vec<usize>>>,
}

impl Keys {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl Resolver<'_> {
    /// Resolves a GROUP BY over the select list `items`, whose aggregate and window calls are `calls`.
    pub(super) fn keys(
        &mut self,
        group_by: &GroupByExpr,
        items: &mut [Item],
        scope: &Scope<'_>,
        environment: &Environment<'_>,
        calls: &Calls,
    ) -> Result<Keys> {
        self.named_items(group_by, items);
        let plain = |item: &&Item| !calls.aggregated(&item.value.expr) && !calls.windowed(&item.value.expr);
        // An alias wins over a column, except where it names an aggregate: that cannot be a key.
        let aliases: Vec<(String, Typed)> =
            items.iter().filter(plain).filter_map(|item| Some((item.name.clone()?, item.value.clone()))).collect();
        let mut keys = Keys::default();
        let (asts, modifiers) = match group_by {
            GroupByExpr::All(modifiers) => {
                for item in items.iter().filter(plain) {
                    self.key(&mut keys, item.value.clone(), item.at)?;
                }
                (&[][..], modifiers)
            }
            GroupByExpr::Expressions(asts, modifiers) => (asts.as_slice(), modifiers),
        };
        let read = |this: &mut Self, keys: &mut Keys, ast: &Ast| -> Result<usize> {
            let at = place(ast);
            let value = match ordinal(ast) {
                Some(n) => {
                    let item = nth_item(items, n, at)?;
                    if !plain(&item) {
                        return Err(invalid(format!("GROUP BY {n} names an aggregate or window function"), at));
                    }
                    item.value.clone()
                }
                None => {
                    let mut cx = Context { aliases: &aliases, ..Context::new(scope, environment, Clause::GroupBy) };
                    this.expr(ast, &mut cx)?
                }
            };
            this.key(keys, value, at)
        };
        // Each item of the list multiplies the sets: a plain key is in all of them.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut grouping_sets = false;
        for ast in asts {
            // Before the keys are resolved, which takes longer than to count them.
            if sets.len().saturating_mul(count(ast)) > MAX_SETS {
                return Err(too_many(place(ast)));
            }
            let choices: Vec<Vec<usize>> = match ast {
                Ast::Tuple(list) if list.is_empty() => vec![Vec::new()],
                ast if grouping_call(ast).is_some() => choices(ast, &mut |ast| read(self, &mut keys, ast))?,
                ast => {
                    let key = read(self, &mut keys, ast)?;
                    for set in &mut sets {
                        set.push(key);
                    }
                    continue;
                }
            };
            grouping_sets = true;
            let joined = |set: &Vec<usize>| {
                let set = set.clone();
                choices.iter().map(move |choice| [set.as_slice(), choice].concat())
            };
            sets = sets.iter().flat_map(joined).collect();
        }
        match modifiers.as_slice() {
            [] => {}
            // MySQL's spelling of the same.
            [GroupByWithModifier::Rollup] if !grouping_sets && !asts.is_empty() => {
                grouping_sets = true;
                let all = sets.pop().unwrap_or_default();
                if all.len() >= MAX_SETS {
                    return Err(too_many(asts.first().and_then(place)));
                }
                sets = (0..=all.len()).rev().map(|n| all.iter().take(n).copied().collect()).collect();
            }
            _ => return Err(unsupported("this modifier of GROUP BY", None, None)),
        }
        if grouping_sets && !fits(&sets) {
            let message =
                format!("the GROUP BY has more than {MAX_BITS} keys, or almost as many and equal grouping sets");
            return Err(fail(Code::LimitExceeded, message, asts.first().and_then(place)));
        }
        keys.sets = grouping_sets.then_some(sets);
        Ok(keys)
    }

    /// Gives items of the select list that are keys of grouping sets, by their number or alias, an expression of their own:
    /// in the sets without the key they are NULL, where equal expressions may not be: constants stay, what is computed of
    /// other keys is computed of these, and equal expressions of two items are two keys. A path is one key however it is
    /// named.
    fn named_items(&mut self, group_by: &GroupByExpr, items: &mut [Item]) {
        let GroupByExpr::Expressions(asts, modifiers) = group_by else { return };
        if modifiers.is_empty() && asts.iter().all(|ast| grouping_call(ast).is_none()) {
            return;
        }
        let mut keys = Vec::new();
        asts.iter().for_each(|ast| leaves(ast, &mut keys));
        for key in keys {
            let item = match (ordinal(key), key) {
                (Some(n), _) => n.checked_sub(1).and_then(|place| items.get_mut(place)),
                (None, Ast::Identifier(name)) => items
                    .iter_mut()
                    .find(|item| item.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(&name.value))),
                _ => None,
            };
            if let Some(item) = item.filter(|item| path_of(&item.value.expr).is_none()) {
                let name = self.fresh();
                let typed = Typed::new(col(Column::new_unqualified(&name)), item.value.ty.clone());
                let value = std::mem::replace(&mut item.value, typed);
                self.named_keys.insert(name, plan_column(value).expr);
            }
        }
    }

    /// An expression with what they compute in the place of the columns that stand for keys.
    fn without_names(&self, expr: Expr) -> Result<Expr> {
        if self.named_keys.is_empty() {
            return Ok(expr);
        }
        let replaced = expr.transform(|part| {
            let named = match &part {
                Expr::Column(column) => self.named_keys.get(&column.name),
                _ => None,
            };
            Ok(named.map_or_else(|| Transformed::no(part.clone()), |named| Transformed::yes(named.clone())))
        });
        Ok(replaced.planned()?.data)
    }

    /// The number of a key, which is added where it is new.
    pub(super) fn key(&mut self, keys: &mut Keys, value: Typed, at: Option<Position>) -> Result<usize> {
        if !value.ty.is_groupable() {
            return Err(invalid(format!("GROUP BY cannot group values of type {}", value.ty), at));
        }
        let Typed { expr, ty, .. } = plan_column(value);
        let (name, expr) = match &expr {
            Expr::Column(column) => match self.named_keys.get(&column.name) {
                Some(named) => (Some(column.name.clone()), named.clone()),
                None => (None, expr),
            },
            // A key may be computed of an alias that is a key itself.
            _ => (None, self.without_names(expr)?),
        };
        let known = keys.keys.iter().position(|key| match &name {
            Some(name) => key.names.contains(name),
            None => key.expr == expr,
        });
        let place = known.unwrap_or_else(|| {
            keys.keys.push(Key { expr, names: Vec::new(), ty, column: self.fresh() });
            keys.keys.len() - 1
        });
        if let Some(key) = keys.keys.get_mut(place) {
            key.names.extend(name);
        }
        Ok(place)
    }
}

/// Whether the engine can number these sets: it has a bit for each key, and counts equal sets in the bits that are left.
fn fits(sets: &[Vec<usize>]) -> bool {
    let (mut keys, mut equal) = (BTreeSet::<usize>::new(), HashMap::<BTreeSet<usize>, usize>::new());
    for set in sets {
        keys.extend(set);
        *equal.entry(set.iter().copied().collect()).or_default() += 1;
    }
    let again = equal.into_values().max().unwrap_or_default().saturating_sub(1);
    keys.len() + (usize::BITS - again.leading_zeros()) as usize <= MAX_BITS
}

/// How many grouping sets an item of a GROUP BY makes, or one more than there may be.
fn count(ast: &Ast) -> usize {
    let count = match grouping_call(ast) {
        None => 1,
        Some((GroupingCall::Rollup, lists)) => lists.len() + 1,
        Some((GroupingCall::Cube, lists)) => {
            u32::try_from(lists.len()).ok().and_then(|n| 1_usize.checked_shl(n)).unwrap_or(MAX_SETS + 1)
        }
        Some((GroupingCall::Sets, lists)) => lists.into_iter().map(count).fold(0, usize::saturating_add),
    };
    count.min(MAX_SETS + 1)
}

/// The keys of the grouping sets that an item of a GROUP BY makes; `read` gives the number of a key.
fn choices(ast: &Ast, read: &mut impl FnMut(&Ast) -> Result<usize>) -> Result<Vec<Vec<usize>>> {
    let mut set = |ast: &Ast| keys_of_set(ast).into_iter().map(&mut *read).collect::<Result<Vec<usize>>>();
    Ok(match grouping_call(ast) {
        None => vec![set(ast)?],
        Some((GroupingCall::Rollup, lists)) => {
            let parts = lists.into_iter().map(set).collect::<Result<Vec<_>>>()?;
            (0..=parts.len()).rev().map(|n| parts.iter().take(n).flatten().copied().collect()).collect()
        }
        Some((GroupingCall::Cube, lists)) => {
            let parts = lists.into_iter().map(set).collect::<Result<Vec<_>>>()?;
            let chosen = |mask: usize| {
                let parts = parts.iter().enumerate().filter(move |(i, _)| mask & (1 << i) != 0);
                parts.flat_map(|(_, part)| part.iter().copied()).collect()
            };
            (0..1_usize << parts.len()).rev().map(chosen).collect()
        }
        Some((GroupingCall::Sets, lists)) => {
            let mut all = Vec::new();
            for list in lists {
                all.extend(choices(list, read)?);
            }
            all
        }
    })
}

/// The keys in an item of a GROUP BY.
fn leaves<'a>(ast: &'a Ast, keys: &mut Vec<&'a Ast>) {
    match grouping_call(ast) {
        Some((_, lists)) => lists.into_iter().for_each(|list| leaves(list, keys)),
        None => keys.extend(keys_of_set(ast)),
    }
}

fn too_many(at: Option<Position>) -> Failure {
    fail(Code::LimitExceeded, format!("the GROUP BY makes more than {MAX_SETS} grouping sets"), at)
}
