//! `WITH(name AS value, ..., result)`: names for values within an expression.

use sqlparser::ast::{Expr as Ast, FunctionArg, FunctionArgExpr};
use tidegate_model::Position;

use crate::exprs::is_volatile;
use crate::fail::{Result, invalid, place, place_of, unsupported};
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::typed::Typed;

impl Resolver<'_> {
    /// A WITH expression. Each value sees the names before it, which hide columns and aliases.
    pub(super) fn with_expression(
        &mut self,
        list: &[FunctionArg],
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(result)), names)) = list.split_last() else {
            return Err(invalid("WITH(...) ends with an expression without a name", at));
        };
        let mut columns: Vec<ScopeColumn> = Vec::with_capacity(names.len());
        for argument in names {
            let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = argument else {
                return Err(invalid("in WITH(...) each value but the last has a name: WITH(a AS 1, a + 1)", at));
            };
            if columns.iter().any(|column| column.name.eq_ignore_ascii_case(&name.value)) {
                return Err(invalid(format!("WITH(...) has two values {}", name.value), place_of(name.span)));
            }
            let value_of = self.over_names(value, columns.clone(), cx)?;
            // The value is computed at each place that names it.
            if is_volatile(&value_of.expr) {
                let instead = Some("compute it in a SELECT around which this expression stands");
                return Err(unsupported("a value that is random in WITH(...)", instead, place(value)));
            }
            columns.push(ScopeColumn {
                name: name.value.clone(),
                value: value_of,
                hidden: false,
                qualified_only: false,
            });
        }
        self.over_names(result, columns, cx)
    }

    fn over_names(&mut self, ast: &Ast, columns: Vec<ScopeColumn>, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let hidden = |alias: &str| columns.iter().any(|column| column.name.eq_ignore_ascii_case(alias));
        let aliases: Vec<(String, Typed)> = cx.aliases.iter().filter(|(alias, _)| !hidden(alias)).cloned().collect();
        let names = Relation::Table { alias: None, columns, open: false };
        let scope = Scope { relations: vec![names], parent: Some(cx.scope), inline: true };
        let Context { environment, windows, clause, guarded, .. } = *cx;
        let calls = cx.calls.as_deref_mut();
        let mut inner =
            Context { calls, windows, guarded, aliases: &aliases, ..Context::new(&scope, environment, clause) };
        inner.decides = Default::default();
        self.expr(ast, &mut inner)
    }
}
