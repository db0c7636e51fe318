//! One SELECT: FROM, WHERE, grouping, HAVING, the select list, DISTINCT, ORDER BY and LIMIT.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, SortExpr, col};
use sqlparser::ast::{
    Distinct, Expr as Ast, GroupByExpr, Ident, NamedWindowDefinition, OrderBy, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, ValueTableMode as Mode, WildcardAdditionalOptions,
};
use tidegate_model::{Code, Position};

use super::aggregate::calls_aggregate;
use super::calls::Calls;
use super::expr::{Context, implied_name};
use super::from::Source;
use super::group::Grouped;
use super::guard::guarded;
use super::query::{Limit, Order, limited, ordinal, shown, sort_keys, sorted};
use super::scope::{Found, Relation, Scope};
use super::window::windowed;
use super::{Environment, Output, Resolved, Resolver, Row, Typed};
use crate::fail::{Planning, Result, fail, invalid, place, place_of, unsupported};
use crate::types::Type;

/// The most columns that a select list may have, BigQuery's own limit. Every level of
/// `SELECT *, *` doubles them, so a short text could ask for billions.
const MAX_COLUMNS: usize = 10_000;
/// The most columns when the fields of STRUCTs are counted, for `STRUCT(s AS a, s AS b)` doubles
/// too. More than columns, because all that a source ever held is one `metadata`.
const MAX_FIELDS: usize = 50_000;

/// One column of the select list.
pub(crate) struct Item {
    /// The given or implied name.
    pub(crate) name: Option<String>,
    pub(crate) value: Typed,
    pub(crate) at: Option<Position>,
}

impl Resolver<'_> {
    pub(crate) fn select(
        &mut self,
        select: &Select,
        order_by: Option<&OrderBy>,
        limit: Limit,
        environment: &Environment,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        refuse_foreign_clauses(select)?;
        let distinct = match &select.distinct {
            None | Some(Distinct::All) => {
                matches!(select.value_table_mode, Some(Mode::DistinctAsStruct | Mode::DistinctAsValue))
            }
            Some(Distinct::Distinct) => true,
            Some(Distinct::On(_)) => {
                let message = "DISTINCT ON; write QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1";
                return Err(unsupported(message, place(select)));
            }
        };
        let inner_order = if keeps_order(select, order_by, distinct) { order } else { Order::Dropped };
        let Source { plan, scope } = self.from(&select.from, environment, parent, inner_order)?;
        let mut builder = LogicalPlanBuilder::from(plan);
        if let Some(condition) = &select.selection {
            let condition = self.condition(condition, &mut Context::new(&scope, environment, "WHERE"))?;
            let condition = guarded(condition, &scope, builder.schema())?;
            builder = builder.filter(condition).planned()?;
        }

        let named = select.named_window.as_slice();
        let mut calls = Calls::default();
        self.named_windows(named, &scope, environment)?;
        let items = self.items(&select.projection, &scope, environment, &mut calls, Some(named), false)?;
        let keys = self.keys(&select.group_by, &items, &scope, environment, &calls)?;
        let aliases: Vec<(String, Typed)> =
            items.iter().filter_map(|item| Some((item.name.clone()?, item.value.clone()))).collect();
        let mut conditional = |this: &mut Self, ast: &Option<Ast>, clause, windows| -> Result<Option<Expr>> {
            let Some(ast) = ast else { return Ok(None) };
            let (aliases, calls) = (aliases.as_slice(), Some(&mut calls));
            let mut cx = Context { aliases, calls, windows, ..Context::new(&scope, environment, clause) };
            this.condition(ast, &mut cx).map(Some)
        };
        let having = conditional(self, &select.having, "HAVING", None)?;
        let qualify = conditional(self, &select.qualify, "QUALIFY", Some(named))?;
        if let Some(having) = &having
            && calls.windowed(having)
        {
            return Err(invalid("HAVING cannot use a window function; QUALIFY can", place(select)));
        }
        let mut sorts: Vec<SortExpr> = Vec::new();
        for key in sort_keys(order_by)? {
            let value = match ordinal(&key.expr) {
                Some(n) => nth(&items, n, place(&key.expr))?.value.clone(),
                None => {
                    let calls = Some(&mut calls);
                    let mut cx = Context {
                        aliases: &aliases,
                        calls,
                        windows: Some(named),
                        ..Context::new(&scope, environment, "ORDER BY")
                    };
                    self.expr(&key.expr, &mut cx)?
                }
            };
            sorts.push(sorted(value, key)?);
        }
        if order == Order::Dropped && limit.rows.is_none() && limit.skip == 0 {
            sorts.clear();
        }

        let mut values: Vec<Typed> = items.iter().map(|item| shown(item.value.clone())).collect();
        let mut qualify = qualify;
        let groups = !keys.is_empty() || !calls.aggregates.is_empty() || having.is_some() || select_groups(select);
        if groups {
            let prefix = self.fresh();
            let grouped = Grouped { keys, calls: &calls, labels: &self.labels };
            builder = grouped.plan(builder, &prefix)?;
            for (value, item) in values.iter_mut().zip(&items) {
                value.expr = grouped.over(value.expr.clone(), item.at)?;
            }
            for sort in &mut sorts {
                sort.expr = grouped.over(sort.expr.clone(), None)?;
            }
            if let Some(condition) = having {
                builder = builder.filter(grouped.over(condition, None)?).planned()?;
            }
            qualify = qualify.map(|condition| grouped.over(condition, None)).transpose()?;
            builder = windowed(builder, &calls, |call| grouped.over(call, None))?;
        } else {
            if !calls.groupings.is_empty() {
                return Err(invalid("GROUPING needs a GROUP BY", place(select)));
            }
            builder = windowed(builder, &calls, Ok)?;
        }
        if let Some(condition) = qualify {
            builder = builder.filter(condition).planned()?;
        }
        let row = match select.value_table_mode {
            None => Row::Columns,
            Some(Mode::AsStruct | Mode::DistinctAsStruct) => Row::Struct,
            Some(Mode::AsValue | Mode::DistinctAsValue) if values.len() == 1 => Row::Value,
            Some(_) => return Err(invalid("SELECT AS VALUE takes exactly one value", place(select))),
        };
        let resolved = self.project(builder, items, values, sorts, distinct, limit)?;
        Ok(Resolved { row, ..resolved })
    }

    /// The select list, wildcards expanded. `named` are the named windows, where window calls
    /// are allowed.
    pub(crate) fn items(
        &mut self,
        projection: &[SelectItem],
        scope: &Scope<'_>,
        environment: &Environment,
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
                    let mut cx = Context { calls, windows, guarded, ..Context::new(scope, environment, "SELECT") };
                    let value = self.expr(ast, &mut cx)?;
                    items.push(Item { name: implied_name(ast), value, at: place(ast) });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    let calls = Some(&mut *calls);
                    let mut cx = Context { calls, windows, guarded, ..Context::new(scope, environment, "SELECT") };
                    let value = self.expr(expr, &mut cx)?;
                    items.push(Item { name: Some(alias.value.clone()), value, at: place(expr) });
                }
                SelectItem::Wildcard(options) => {
                    let at = place_of(options.wildcard_token.0.span);
                    if scope.relations.is_empty() {
                        return Err(invalid("* needs a FROM clause", at));
                    }
                    let all = scope.relations.iter().flat_map(|relation| columns_of(relation, at)).collect();
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
                            let value = self.expr(ast, &mut Context::new(scope, environment, "SELECT"))?;
                            fields_of(&value, at)?
                        }
                    };
                    items.extend(self.wildcard(all, options, scope, environment)?);
                }
                SelectItem::ExprWithAliases { .. } => {
                    return Err(unsupported("several aliases for one expression", None));
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
            return Ok(columns_of(&table, at));
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
        environment: &Environment,
    ) -> Result<Vec<Item>> {
        let at = place_of(options.wildcard_token.0.span);
        if options.opt_ilike.is_some() || options.opt_exclude.is_some() || options.opt_rename.is_some() {
            return Err(unsupported(
                "ILIKE, EXCLUDE or RENAME after *; write * EXCEPT (name) or * REPLACE (expression AS name)",
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
                let value = self.expr(&element.expr, &mut Context::new(scope, environment, "SELECT"))?;
                let item = all.iter_mut().find(|item| is(item, &element.column_name));
                item.ok_or_else(|| missing(&element.column_name))?.value = value;
            }
        }
        Ok(all)
    }

    /// Select list, DISTINCT, ORDER BY and LIMIT over the grouped or plain rows.
    fn project(
        &mut self,
        builder: LogicalPlanBuilder,
        items: Vec<Item>,
        values: Vec<Typed>,
        mut sorts: Vec<SortExpr>,
        distinct: bool,
        limit: Limit,
    ) -> Result<Resolved> {
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        let names = unique_names(&items);
        for ((item, value), name) in items.iter().zip(&values).zip(names) {
            if distinct && !value.ty.is_groupable() {
                return Err(invalid(format!("DISTINCT cannot compare values of type {}", value.ty), item.at));
            }
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.clone());
            exprs.push(value.expr.clone().alias(&unique));
            columns.push(Output { name, column: Column::new_unqualified(unique), ty: value.ty.clone() });
        }
        let shown_columns = exprs.len();
        for sort in &mut sorts {
            let at = values.iter().position(|value| value.expr == sort.expr);
            let column = match at.and_then(|at| columns.get(at)) {
                Some(output) => output.column.clone(),
                None if distinct => {
                    return Err(invalid("with SELECT DISTINCT, ORDER BY can only use selected columns", None));
                }
                None => {
                    let unique = self.fresh();
                    exprs.push(sort.expr.clone().alias(&unique));
                    Column::new_unqualified(unique)
                }
            };
            sort.expr = col(column);
        }
        let extended = exprs.len() > shown_columns;
        let mut builder = builder.project(exprs).planned()?;
        if distinct {
            builder = builder.distinct().planned()?;
        }
        if !sorts.is_empty() {
            builder = builder.sort(sorts).planned()?;
        }
        let mut plan = limited(builder, limit)?;
        if extended {
            let shown = columns.iter().map(|output| Expr::Column(output.column.clone()));
            plan = LogicalPlanBuilder::from(plan).project(shown).and_then(LogicalPlanBuilder::build).planned()?;
        }
        Ok(Resolved { plan, columns, row: Row::Columns })
    }
}

pub(crate) fn nth(items: &[Item], n: usize, at: Option<Position>) -> Result<&Item> {
    n.checked_sub(1)
        .and_then(|i| items.get(i))
        .ok_or_else(|| invalid(format!("there is no column number {n}; the select list has {}", items.len()), at))
}

/// The names of the result's columns: missing ones become f0_, f1_; a second use of a name gets
/// a number, because rows are objects and a lost column would be worse than an odd name.
pub(crate) fn unique_names(items: &[Item]) -> Vec<String> {
    let mut taken = std::collections::HashSet::new();
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

fn columns_of(relation: &Relation, at: Option<Position>) -> Vec<Item> {
    match relation {
        Relation::Table { columns, .. } => columns
            .iter()
            .filter(|column| !column.hidden && !column.qualified_only)
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
            .map(|field| Item { name: Some(field.name.clone()), value: super::access::stored_field(value, field), at })
            .collect()),
        ty => Err(invalid(format!("a value of type {ty} has no fields for .*"), at)),
    }
}

fn refuse_foreign_clauses(select: &Select) -> Result<()> {
    let at = place(select);
    let foreign: [(bool, &str); 8] = [
        (select.into.is_some(), "SELECT INTO"),
        (select.top.is_some(), "TOP; write LIMIT at the end"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW; write CROSS JOIN UNNEST(...) AS x"),
        (select.prewhere.is_some(), "PREWHERE; write WHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty() || !select.distribute_by.is_empty() || !select.sort_by.is_empty(), "CLUSTER BY"),
        (select.flavor != SelectFlavor::Standard, "FROM before SELECT; write SELECT ... FROM ..."),
        (select.exclude.is_some() || select.select_modifiers.is_some(), "a modifier of SELECT"),
    ];
    match foreign.iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(unsupported(what, at)),
        None => Ok(()),
    }
}

fn select_groups(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    }
}

/// Whether the rows leave this SELECT in the order in which its FROM delivers them.
fn keeps_order(select: &Select, order_by: Option<&OrderBy>, distinct: bool) -> bool {
    let one_table = matches!(select.from.as_slice(), [table] if table
        .joins
        .iter()
        .all(|join| matches!(join.relation, TableFactor::UNNEST { .. })));
    one_table && order_by.is_none() && !distinct && !select_groups(select) && !calls_aggregate(&select.projection)
}
