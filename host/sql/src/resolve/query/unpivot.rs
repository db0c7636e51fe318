//! UNPIVOT: columns become rows, each with the name of its column. It is an UNNEST of an array that has an element for
//! each of the columns.

use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use sqlparser::ast::{Expr as Ast, ExprWithAlias, Ident, NullInclusion};
use tidegate_model::Position;

use super::join::Input;
use super::pipe_scope::visible;
use super::unnest::Keep;
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::Item;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::text::marked_number;
use crate::typed::Typed;
use crate::types::{Field, Type};
use crate::typing::{Conversion, stored_field};

/// What an UNPIVOT says.
pub(super) struct Unpivot<'a> {
    /// The name of the column of values, or a tuple of several.
    pub(super) value: &'a Ast,
    /// The name of the column of names.
    pub(super) name: &'a Ident,
    pub(super) columns: &'a [ExprWithAlias],
    pub(super) nulls: Option<&'a NullInclusion>,
    pub(super) alias: Option<String>,
    pub(super) at: Option<Position>,
}

impl Resolver<'_> {
    pub(super) fn unpivoted<'p>(
        &mut self,
        input: Input<'p>,
        unpivot: &Unpivot<'_>,
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        let at = unpivot.at;
        if scope.relations.iter().any(|relation| matches!(relation, Relation::Element { .. })) {
            let instead = Some("write UNPIVOT behind (SELECT ... FROM UNNEST(...))");
            return Err(unsupported("UNPIVOT of the elements of an array", instead, at));
        }
        let names = names(unpivot.value)?;
        let mut read: Vec<Expr> = Vec::new();
        // The values of each set of columns, and the name that its rows have.
        let mut sets: Vec<(Vec<Typed>, Typed)> = Vec::with_capacity(unpivot.columns.len());
        for ExprWithAlias { expr, alias } in unpivot.columns {
            let at = place(expr).or(at);
            let set = match expr {
                Ast::Tuple(columns) => columns.iter().collect(),
                column => vec![column],
            };
            if set.len() != names.len() {
                let message = format!("UNPIVOT makes {} columns of values, and here are {}", names.len(), set.len());
                return Err(invalid(message, at));
            }
            let mut values = Vec::with_capacity(set.len());
            let mut own_names = Vec::with_capacity(set.len());
            for column in set {
                own_names.push(column_name(column)?.value.clone());
                let context = &mut Context::new(&scope, environment, Clause::Select);
                let value = self.expr(column, context)?;
                if read.contains(&value.expr) {
                    return Err(invalid("UNPIVOT names a column twice", at));
                }
                read.push(value.expr.clone());
                values.push(value);
            }
            let name = match alias {
                Some(alias) => match marked_number(alias) {
                    Some(number) => Typed::new(lit(number), Type::Int64),
                    None => Typed::new(lit(alias.value.as_str()), Type::String).uniform(),
                },
                None => Typed::new(lit(own_names.join("_")), Type::String).uniform(),
            };
            sets.push((values, name));
        }
        let Some((_, first_name)) = sets.first() else { return Err(invalid("UNPIVOT needs columns", at)) };
        for (_, name) in &sets {
            if name.ty != first_name.ty {
                return Err(invalid("the names of UNPIVOT are all texts or all numbers", at));
            }
        }
        of_one_type(&mut sets, at)?;
        let Some((first, first_name)) = sets.first() else { return Err(invalid("UNPIVOT needs columns", at)) };
        let fields: Vec<Field> = first
            .iter()
            .chain([first_name])
            .enumerate()
            .map(|(i, value)| Field { name: format!("v{i}"), ty: value.ty.clone() })
            .collect();
        let element = |(values, name): &(Vec<Typed>, Typed)| {
            let parts = values.iter().chain([name]).zip(&fields);
            core::named_struct(
                parts.flat_map(|(value, field)| [lit(field.name.as_str()), value.expr.clone()]).collect(),
            )
        };
        let array = nested::make_array(sets.iter().map(element).collect());
        let item = Type::Struct { fields: fields.clone().into(), open: false };
        let array = Typed::new(array, Type::Array(Box::new(item.clone())));
        let kept: Vec<Item> = visible(&scope).into_iter().filter(|item| !read.contains(&item.value.expr)).collect();
        let builder = LogicalPlanBuilder::from(plan);
        let (mut builder, element, _) = self.unnest_list(builder, array, item, Keep::Matching, false)?;
        let values: Vec<Typed> = fields.iter().map(|field| stored_field(&element, field)).collect();
        let of_values = values.get(..names.len()).unwrap_or_default();
        if unpivot.nulls != Some(&NullInclusion::IncludeNulls) {
            let there = of_values.iter().map(|value| value.expr.clone().is_not_null()).reduce(Expr::or);
            if let Some(there) = there {
                builder = builder.filter(there).planned()?;
            }
        }
        let column = |name: String, value: Typed| ScopeColumn { name, value, hidden: false, qualified_only: false };
        let mut columns: Vec<ScopeColumn> =
            kept.into_iter().map(|item| column(item.name.unwrap_or_default(), item.value)).collect();
        let made = names.iter().chain([&unpivot.name]).map(|name| name.value.clone());
        columns.extend(made.zip(values).map(|(name, value)| column(name, value)));
        let relations = vec![Relation::Table { alias: unpivot.alias.clone(), columns, open: false }];
        Ok(Input { plan: builder.build().planned()?, scope: Scope { relations, ..scope } })
    }
}

/// Gives the values of each column of values one type: NULL takes that of the others.
fn of_one_type(sets: &mut [(Vec<Typed>, Typed)], at: Option<Position>) -> Result<()> {
    let width = sets.first().map_or(0, |(values, _)| values.len());
    for place in 0..width {
        let types = sets.iter().filter_map(|(values, _)| values.get(place)).map(|value| value.ty.clone());
        let mut types = types.filter(|ty| *ty != Type::Null);
        let Some(ty) = types.next() else { continue };
        if let Some(other) = types.find(|other| *other != ty) {
            let message = format!("UNPIVOT takes columns of one type, not {ty} and {other}; CAST one of them");
            return Err(invalid(message, at));
        }
        for value in sets.iter_mut().filter_map(|(values, _)| values.get_mut(place)) {
            *value = value.clone().convert(&ty, Conversion::implicit(at))?;
        }
    }
    Ok(())
}

/// The names of the columns of values.
fn names(value: &Ast) -> Result<Vec<&Ident>> {
    match value {
        Ast::Tuple(parts) => parts.iter().map(column_name).collect(),
        part => Ok(vec![column_name(part)?]),
    }
}

/// The name of a column that becomes rows.
fn column_name(column: &Ast) -> Result<&Ident> {
    match column {
        Ast::Identifier(name) => Ok(name),
        Ast::CompoundIdentifier(parts) => parts.last().ok_or_else(|| invalid("UNPIVOT takes columns", place(column))),
        Ast::Nested(column) => column_name(column),
        other => Err(invalid("UNPIVOT takes columns, not expressions", place(other))),
    }
}
