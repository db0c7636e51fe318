//! The keys of a GROUP BY, and the grouping sets that they make.

use datafusion::logical_expr::Expr;
use sqlparser::ast::{Expr as Ast, GroupByExpr, GroupByWithModifier};
use tidegate_model::{Code, Failure, Position};

use crate::fail::{Result, fail, invalid, place, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Item, nth_item};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::resolve::sorting::ordinal;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::plan_column;

/// The most grouping sets that one GROUP BY may unfold to: a CUBE of n keys has 2^n.
const MAX_SETS: usize = 64;

/// A group key and the plan column that carries it above the aggregation.
pub(super) struct Key {
    pub(super) expr: Expr,
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
        items: &[Item],
        scope: &Scope<'_>,
        environment: &Environment<'_>,
        calls: &Calls,
    ) -> Result<Keys> {
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
            let several = |this: &mut Self, keys: &mut Keys, lists: &[Vec<Ast>]| -> Result<Vec<Vec<usize>>> {
                lists.iter().map(|list| list.iter().map(|ast| read(this, keys, ast)).collect()).collect()
            };
            // Before the keys are resolved, which takes longer than to count them.
            let count = match ast {
                Ast::Rollup(lists) => lists.len() + 1,
                Ast::Cube(lists) => {
                    u32::try_from(lists.len()).ok().and_then(|n| 1_usize.checked_shl(n)).unwrap_or(MAX_SETS + 1)
                }
                Ast::GroupingSets(lists) => lists.len(),
                _ => 1,
            };
            if sets.len().saturating_mul(count) > MAX_SETS {
                return Err(too_many(place(ast)));
            }
            let choices: Vec<Vec<usize>> = match ast {
                Ast::Rollup(lists) => {
                    let parts = several(self, &mut keys, lists)?;
                    (0..=parts.len()).rev().map(|n| parts.iter().take(n).flatten().copied().collect()).collect()
                }
                Ast::Cube(lists) => {
                    let parts = several(self, &mut keys, lists)?;
                    let chosen = |mask: usize| {
                        let parts = parts.iter().enumerate().filter(move |(i, _)| mask & (1 << i) != 0);
                        parts.flat_map(|(_, part)| part.iter().copied()).collect()
                    };
                    (0..1_usize << parts.len()).rev().map(chosen).collect()
                }
                Ast::GroupingSets(lists) => several(self, &mut keys, lists)?,
                Ast::Tuple(list) if list.is_empty() => vec![Vec::new()],
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
        keys.sets = grouping_sets.then_some(sets);
        Ok(keys)
    }

    fn key(&mut self, keys: &mut Keys, value: Typed, at: Option<Position>) -> Result<usize> {
        if !value.ty.is_groupable() {
            return Err(invalid(format!("GROUP BY cannot group values of type {}", value.ty), at));
        }
        let Typed { expr, ty } = plan_column(value);
        if let Some(known) = keys.keys.iter().position(|key| key.expr == expr) {
            return Ok(known);
        }
        keys.keys.push(Key { expr, ty, column: self.fresh() });
        Ok(keys.keys.len() - 1)
    }
}

fn too_many(at: Option<Position>) -> Failure {
    fail(Code::LimitExceeded, format!("the GROUP BY makes more than {MAX_SETS} grouping sets"), at)
}
