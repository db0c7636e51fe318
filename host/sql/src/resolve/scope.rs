//! Scopes: which names mean what at a place in a query.
//!
//! The order of a lookup is the dialect's, with the leniences that clients need:
//!
//! 1. an element alias of `UNNEST` (it hides a column of the same name),
//! 2. a column of a table,
//! 3. a field of an unnested element, without its alias,
//! 4. a table alias, as the row's struct,
//! 5. the same in the enclosing query (a correlated subquery),
//! 6. NULL, if an element or table of stored records is in scope: a path that no record ever had.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use sqlparser::ast::Ident;
use tidegate_model::{Code, Failure, nearest};

use crate::fail::{Planning, Result, fail, place_of};
use crate::text::written;
use crate::typed::Typed;
use crate::types::{Field, Type};
use crate::typing::stored_field;

/// A named column of a table in scope.
#[derive(Debug, Clone)]
pub(super) struct ScopeColumn {
    pub(super) name: String,
    pub(super) value: Typed,
    /// Not part of `*`.
    pub(super) hidden: bool,
    /// Found only behind its table's alias: without it, the name means the column of the other side of a USING.
    pub(super) qualified_only: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Relation {
    /// A table, CTE or subquery.
    Table {
        alias: Option<String>,
        columns: Vec<ScopeColumn>,
        /// Whether unknown columns are NULL: the table holds stored records as they are.
        open: bool,
    },
    /// The element of an UNNEST: a value whose fields can be read without its alias.
    Element { alias: Option<String>, value: Typed },
}

/// What is in scope at a place.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope<'p> {
    pub(super) relations: Vec<Relation>,
    pub(super) parent: Option<&'p Scope<'p>>,
    /// Whether expressions of this scope become expressions over the rows of the enclosing scope. Columns of that scope
    /// are then plain columns here, not outer references.
    pub(super) inline: bool,
}

/// What a name was found to be.
#[derive(Debug, Clone)]
pub(super) enum Found {
    Value(Typed),
    /// A table alias: its columns, which make up the row.
    Row(Vec<ScopeColumn>, bool),
    /// Nothing, where the name may be a path that no record ever had.
    Absent,
}

impl Relation {
    pub(super) fn alias(&self) -> Option<&str> {
        match self {
            Self::Table { alias, .. } | Self::Element { alias, .. } => alias.as_deref(),
        }
    }

    /// Makes a table of an element that has the column `name`, which is it or a field of it: columns of tables can be found
    /// by their alias alone. Elements of log records stay, because they may have fields that no column has.
    pub(super) fn open_element(&mut self, name: &str) {
        let Self::Element { alias, value } = self else { return };
        let column = |name: &str, value: Typed, hidden: bool| ScopeColumn {
            name: name.to_owned(),
            value,
            hidden,
            qualified_only: false,
        };
        *self = match &value.ty {
            Type::Struct { fields, open: false } if Type::field(fields, name).is_some() => {
                let columns =
                    fields.iter().map(|field| column(&field.name, stored_field(value, field), field.is_hidden()));
                Self::Table { alias: alias.clone(), columns: columns.collect(), open: false }
            }
            Type::Struct { .. } => return,
            _ if alias.as_deref().is_some_and(|alias| alias.eq_ignore_ascii_case(name)) => {
                let columns = vec![column(name, value.clone(), false)];
                Self::Table { alias: None, columns, open: false }
            }
            _ => return,
        };
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Table { open, .. } => *open,
            Self::Element { value, .. } => matches!(value.ty, Type::Null | Type::Struct { open: true, .. }),
        }
    }

    /// The fields of an element, which can be read without its alias.
    fn element_fields(&self) -> &[Field] {
        match self {
            Self::Element { value: Typed { ty: Type::Struct { fields, .. }, .. }, .. } => fields,
            _ => &[],
        }
    }
}

impl Scope<'_> {
    /// Those of the columns of a plan that a name in scope here reads.
    pub(super) fn read_of(&self, columns: Vec<Column>) -> Vec<Column> {
        let mut read = HashSet::new();
        for relation in &self.relations {
            match relation {
                // Without an alias nothing names what is found only behind one.
                Relation::Table { alias, columns, .. } => {
                    let named = columns.iter().filter(|column| alias.is_some() || !column.qualified_only);
                    read.extend(named.flat_map(|column| column.value.expr.column_refs()));
                }
                Relation::Element { value, .. } => read.extend(value.expr.column_refs()),
            }
        }
        columns.into_iter().filter(|column| read.contains(column)).collect()
    }

    /// The type of a column that is a column or an element here.
    fn type_of(&self, column: &Column) -> Option<DataType> {
        let is = |value: &&Typed| matches!(&value.expr, Expr::Column(own) if own == column);
        let value = self.relations.iter().find_map(|relation| match relation {
            Relation::Table { columns, .. } => columns.iter().map(|column| &column.value).find(is),
            Relation::Element { value, .. } => Some(value).filter(is),
        });
        value.map(|value| value.ty.arrow())
    }

    /// Whether a table or element has this alias, here or around.
    pub(super) fn has_alias(&self, name: &str) -> bool {
        let is = |relation: &Relation| relation.alias().is_some_and(|alias| alias.eq_ignore_ascii_case(name));
        self.relations.iter().any(is) || self.parent.is_some_and(|parent| parent.has_alias(name))
    }

    /// Looks up the first part of a path. `alone` tells whether nothing follows: then an unknown
    /// name may be a path that no record ever had.
    pub(super) fn find(&self, name: &Ident, alone: bool) -> Result<Found> {
        if let Some(found) = self.find_here(name, alone)? {
            return Ok(found);
        }
        let mut depth = self.parent;
        let mut inline = self.inline;
        while let Some(scope) = depth {
            if let Some(found) = scope.find_here(name, alone)? {
                return if inline { Ok(found) } else { outer(found, scope) };
            }
            inline &= scope.inline;
            depth = scope.parent;
        }
        if alone && self.chain().any(|scope| scope.relations.iter().any(Relation::is_open)) {
            return Ok(Found::Absent);
        }
        Err(self.unknown(name, alone))
    }

    fn chain(&self) -> impl Iterator<Item = &Scope<'_>> {
        std::iter::successors(Some(self), |scope| scope.parent)
    }

    /// What a name that stands alone could be, here and around.
    pub(super) fn all_names(&self) -> Vec<&str> {
        self.chain().flat_map(|scope| scope.names(true)).collect()
    }

    fn find_here(&self, name: &Ident, alone: bool) -> Result<Option<Found>> {
        let wanted = name.value.as_str();
        let is = |alias: Option<&str>| alias.is_some_and(|alias| alias.eq_ignore_ascii_case(wanted));
        let row = || {
            self.relations.iter().find_map(|relation| match relation {
                Relation::Table { alias, columns, open } if is(alias.as_deref()) => {
                    Some(Found::Row(columns.clone(), *open))
                }
                _ => None,
            })
        };
        for relation in &self.relations {
            if let Relation::Element { alias, value } = relation
                && is(alias.as_deref())
            {
                return Ok(Some(Found::Value(value.clone())));
            }
        }
        // `t.x` means the table t where both a table and a column are called t.
        if !alone && let Some(row) = row() {
            return Ok(Some(row));
        }
        let mut columns = self.relations.iter().filter_map(|relation| match relation {
            Relation::Table { columns, .. } => {
                column(columns, wanted).filter(|found| !found.qualified_only).map(|found| found.value.clone())
            }
            Relation::Element { .. } => None,
        });
        if let Some(value) = columns.next() {
            if columns.any(|other| other.expr != value.expr) {
                return Err(self.ambiguous(name));
            }
            return Ok(Some(Found::Value(value)));
        }
        let mut fields = self.relations.iter().filter_map(|relation| {
            let (_, field) = Type::field(relation.element_fields(), wanted)?;
            match relation {
                Relation::Element { value, .. } => Some(stored_field(value, &field)),
                Relation::Table { .. } => None,
            }
        });
        if let Some(value) = fields.next() {
            if fields.next().is_some() {
                return Err(self.ambiguous(name));
            }
            return Ok(Some(Found::Value(value)));
        }
        Ok(row())
    }

    fn ambiguous(&self, name: &Ident) -> Failure {
        let homes: Vec<String> = self
            .relations
            .iter()
            .filter(|relation| match relation {
                Relation::Table { alias, columns, .. } => alias.is_some() && column(columns, &name.value).is_some(),
                element => Type::field(element.element_fields(), &name.value).is_some(),
            })
            .map(|relation| format!("{}.{}", written(relation.alias().unwrap_or("?")), written(&name.value)))
            .collect();
        let instead = if homes.is_empty() {
            "give its columns different names".to_owned()
        } else {
            format!("write {}", homes.join(" or "))
        };
        let message = format!("the name {} is ambiguous; {instead}", name.value);
        fail(Code::UnknownColumn, message, place_of(name.span)).about(&name.value)
    }

    fn unknown(&self, name: &Ident, alone: bool) -> Failure {
        let known: Vec<&str> =
            if alone { self.all_names() } else { self.chain().flat_map(|scope| scope.names(false)).collect() };
        let what = if alone { "column" } else { "table alias or column" };
        let mut message = format!("there is no {what} {}", name.value);
        if let Some(near) = nearest(&name.value, known.iter().copied()) {
            message.push_str(&format!("; did you mean {near}?"));
        } else if known.is_empty() {
            message.push_str("; the query reads no table (FROM is missing)");
        } else {
            let list: Vec<&str> = known.iter().copied().take(20).collect();
            message.push_str(&format!("; there are {}", list.join(", ")));
        }
        fail(Code::UnknownColumn, message, place_of(name.span)).about(&name.value)
    }

    fn names(&self, alone: bool) -> Vec<&str> {
        let mut names = Vec::new();
        for relation in &self.relations {
            // A row as a whole is rarely meant where a column is looked for.
            if !alone || matches!(relation, Relation::Element { .. }) {
                names.extend(relation.alias());
            }
            if let (Relation::Table { columns, .. }, true) = (relation, alone || relation.alias().is_none()) {
                names.extend(columns.iter().filter(|column| !column.hidden).map(|column| column.name.as_str()));
            }
            if alone {
                names.extend(relation.element_fields().iter().map(|field| field.name.as_str()));
            }
        }
        names
    }
}

/// A table's column by name: exactly, else without case.
pub(super) fn column<'c>(columns: &'c [ScopeColumn], name: &str) -> Option<&'c ScopeColumn> {
    columns
        .iter()
        .find(|column| column.name == name)
        .or_else(|| columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)))
}

/// A name of an enclosing query as seen from a subquery.
fn outer(found: Found, scope: &Scope<'_>) -> Result<Found> {
    Ok(match found {
        Found::Value(value) => Found::Value(outer_value(value, scope)?),
        Found::Absent => Found::Absent,
        Found::Row(columns, open) => Found::Row(
            columns
                .into_iter()
                .map(|column| Ok(ScopeColumn { value: outer_value(column.value.clone(), scope)?, ..column }))
                .collect::<Result<_>>()?,
            open,
        ),
    })
}

/// A value of an enclosing query, whose scope this is, with its columns as outer references.
pub(super) fn outer_value(value: Typed, scope: &Scope<'_>) -> Result<Typed> {
    let expr = outer_expr(value.expr, &value.ty.arrow(), scope).planned()?.data;
    Ok(Typed::new(expr, value.ty))
}

/// A column that the scope does not know has the type of the whole, or of the record that a field of that type is read of.
fn outer_expr(expr: Expr, whole: &DataType, scope: &Scope<'_>) -> datafusion::error::Result<Transformed<Expr>> {
    match expr {
        Expr::Column(column) => {
            let data_type = scope.type_of(&column).unwrap_or_else(|| whole.clone());
            Ok(Transformed::yes(outer_column(column, &data_type)))
        }
        Expr::ScalarFunction(ref call) if call.func.name() == "get_field" => {
            let names = call.args.iter().skip(1).rev().filter_map(|name| match name {
                Expr::Literal(name, _) => name.try_as_str().flatten(),
                _ => None,
            });
            let record = names
                .fold(whole.clone(), |field, name| DataType::Struct(vec![ArrowField::new(name, field, true)].into()));
            expr.map_children(|part| outer_expr(part, &record, scope))
        }
        other => other.map_children(|part| outer_expr(part, whole, scope)),
    }
}

fn outer_column(column: Column, data_type: &DataType) -> Expr {
    Expr::OuterReferenceColumn(Arc::new(ArrowField::new(&column.name, data_type.clone(), true)), column)
}
