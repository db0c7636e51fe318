//! The select list: expressions and wildcards, each under a name.

use std::collections::HashSet;

use sqlparser::ast::{
    Ident, NamedWindowDefinition, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use tidegate_model::{Code, Position};

use super::implied_name;
use crate::fail::{Result, fail, invalid, place, place_of, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Found, Relation, Scope};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::stored_field;

/// The most columns that a select list may have, BigQuery's own limit. Every level of
/// `SELECT *, *` doubles them, so a short text could ask for billions.
const MAX_COLUMNS: usize = 10_000;
/// The most columns when the fields of STRUCTs are counted, for `STRUCT(s AS a, s AS b)` doubles
/// too. More than columns, because one `metadata` has all fields that a source ever had.
const MAX_FIELDS: usize = 50_000;

/// One column of the select list.
pub(in crate::resolve) struct Item {
    /// The given or implied name.
    pub(in crate::resolve) name: Option<String>,
    pub(in crate::resolve) value: Typed,
    pub(in crate::resolve) at: Option<Position>,
}

impl Resolver<'_> {
    /// The select list with its wildcards expanded. `windows` are the named windows, where window calls are allowed;
    /// `guarded` is that of the [`Context`].
    pub(in crate::resolve) fn items(
        &mut self,
        projection: &[SelectItem],
        scope: &Scope<'_>,
        environment: &Environment<'_>,
        calls: &mut Calls,
        windows: Option<&[NamedWindowDefinition]>,
        guarded: bool,
    ) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        let (mut fields, mut counted) = (0, 0);
        for item in projection {
            match item {
                SelectItem::UnnamedExpr(ast) => {
                    let calls = Some(&mut *calls);
                    let mut cx =
                        Context { calls, windows, guarded, ..Context::new(scope, environment, Clause::Select) };
                    let value = self.expr(ast, &mut cx)?;
                    items.push(Item { name: implied_name(ast), value, at: place(ast) });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let calls = Some(&mut *calls);
                    let mut cx =
                        Context { calls, windows, guarded, ..Context::new(scope, environment, Clause::Select) };
                    let value = self.expr(expr, &mut cx)?;
                    items.push(Item { name: Some(alias.value.clone()), value, at: place(expr) });
                }
                SelectItem::Wildcard(options) => {
                    let at = place_of(options.wildcard_token.0.span);
                    if scope.relations.is_empty() {
                        return Err(invalid("* needs a FROM clause", at));
                    }
                    let all = scope.relations.iter().flat_map(|relation| columns_of(relation, false, at)).collect();
                    items.extend(self.wildcard(all, options, scope, environment)?);
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    let at = place_of(options.wildcard_token.0.span);
                    let all = match kind {
                        SelectItemQualifiedWildcardKind::ObjectName(name) => {
                            let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                            self.qualified(&parts, scope, at)?
                        }
                        SelectItemQualifiedWildcardKind::Expr(ast) => {
                            let calls = Some(&mut *calls);
                            let cx = Context::new(scope, environment, Clause::Select);
                            let value = self.expr(ast, &mut Context { calls, windows, guarded, ..cx })?;
                            fields_of(&value, at)?
                        }
                    };
                    items.extend(self.wildcard(all, options, scope, environment)?);
                }
                SelectItem::ExprWithAliases { .. } => {
                    return Err(unsupported("several aliases for one expression", None, None));
                }
            }
            let new = items.get(counted..).unwrap_or_default();
            fields += new.iter().map(|item| item.value.ty.width(MAX_FIELDS)).sum::<usize>();
            if items.len() > MAX_COLUMNS || fields > MAX_FIELDS {
                let message = format!(
                    "the select list has more than {MAX_COLUMNS} columns, or {MAX_FIELDS} with the fields of STRUCTs"
                );
                return Err(fail(Code::LimitExceeded, message, new.first().and_then(|item| item.at)));
            }
            counted = items.len();
        }
        if items.is_empty() {
            return Err(invalid("the select list is empty", None));
        }
        Ok(items)
    }

    fn qualified(&mut self, parts: &[Ident], scope: &Scope<'_>, at: Option<Position>) -> Result<Vec<Item>> {
        if let [name] = parts
            && let Found::Row(columns, _) = scope.find(name, false)?
        {
            let table = Relation::Table { alias: None, columns, open: false };
            return Ok(columns_of(&table, true, at));
        }
        let value = self.path(parts, scope)?;
        fields_of(&value, at)
    }

    /// EXCEPT and REPLACE of a wildcard.
    fn wildcard(
        &mut self,
        mut all: Vec<Item>,
        options: &WildcardAdditionalOptions,
        scope: &Scope<'_>,
        environment: &Environment<'_>,
    ) -> Result<Vec<Item>> {
        let at = place_of(options.wildcard_token.0.span);
        if options.opt_ilike.is_some() || options.opt_exclude.is_some() || options.opt_rename.is_some() {
            return Err(unsupported(
                "ILIKE, EXCLUDE or RENAME after *",
                Some("write * EXCEPT (name) or * REPLACE (expression AS name)"),
                at,
            ));
        }
        let is = |item: &Item, name: &Ident| item.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(&name.value));
        let missing = |name: &Ident| {
            fail(Code::UnknownColumn, format!("* has no column {}", name.value), place_of(name.span)).about(&name.value)
        };
        if let Some(except) = &options.opt_except {
            for name in std::iter::once(&except.first_element).chain(&except.additional_elements) {
                let before = all.len();
                all.retain(|item| !is(item, name));
                if all.len() == before {
                    return Err(missing(name));
                }
            }
        }
        if let Some(replace) = &options.opt_replace {
            for element in &replace.items {
                let value = self.expr(&element.expr, &mut Context::new(scope, environment, Clause::Select))?;
                let item = all.iter_mut().find(|item| is(item, &element.column_name));
                item.ok_or_else(|| missing(&element.column_name))?.value = value;
            }
        }
        Ok(all)
    }
}

/// Item number `n`, counted from 1.
///
/// # Errors
/// If there is none.
pub(in crate::resolve) fn nth_item(items: &[Item], n: usize, at: Option<Position>) -> Result<&Item> {
    n.checked_sub(1)
        .and_then(|i| items.get(i))
        .ok_or_else(|| invalid(format!("there is no column number {n}; the select list has {}", items.len()), at))
}

/// The names of the result's columns: missing ones become f0_, f1_; a second use of a name gets
/// a number, because rows are shown as objects, in which a second column of the same name would be lost.
pub(in crate::resolve) fn unique_names(items: &[Item]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut anonymous = 0;
    let mut names = Vec::new();
    for item in items {
        let base = item.name.clone().unwrap_or_else(|| {
            anonymous += 1;
            format!("f{}_", anonymous - 1)
        });
        let mut name = base.clone();
        let mut n = 1;
        while !taken.insert(name.clone()) {
            name = format!("{base}_{n}");
            n += 1;
        }
        names.push(name);
    }
    names
}

/// The columns of a table or element; all of them behind its alias, which `qualified` tells, even those for which a name
/// alone means another column.
fn columns_of(relation: &Relation, qualified: bool, at: Option<Position>) -> Vec<Item> {
    match relation {
        Relation::Table { columns, .. } => columns
            .iter()
            .filter(|column| !column.hidden && (qualified || !column.qualified_only))
            .map(|column| Item { name: Some(column.name.clone()), value: column.value.clone(), at })
            .collect(),
        Relation::Element { alias, value } => match fields_of(value, at) {
            Ok(fields) => fields,
            Err(_) => vec![Item { name: alias.clone(), value: value.clone(), at }],
        },
    }
}

fn fields_of(value: &Typed, at: Option<Position>) -> Result<Vec<Item>> {
    match &value.ty {
        Type::Struct { fields, .. } => Ok(fields
            .iter()
            .filter(|field| !field.is_hidden())
            .map(|field| Item { name: Some(field.name.clone()), value: stored_field(value, field), at })
            .collect()),
        ty => Err(invalid(format!("a value of type {ty} has no fields for .*"), at)),
    }
}
