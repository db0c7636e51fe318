//! What is visible between two pipe operators.
//!
//! SET, DROP and RENAME change columns, but the alias of a table still means its row as it was. So a table whose columns
//! change is there twice: without alias for the columns as they are, and behind its alias for those that were.

use sqlparser::ast::Ident;
use tidegate_model::{Code, nearest};

use crate::fail::{Result, fail, invalid, place_of};
use crate::resolve::expr::Item;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::typed::Typed;

/// What becomes of a column.
pub(super) enum Change {
    Value(Typed),
    Renamed(String),
    Dropped,
}

/// The columns that a table between operators shows. An element is one column.
pub(super) fn visible(scope: &Scope<'_>) -> Vec<Item> {
    let name = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
    let mut items = Vec::new();
    for relation in &scope.relations {
        match relation {
            Relation::Table { columns, .. } => {
                let shown = columns.iter().filter(|column| !column.hidden && !column.qualified_only);
                items.extend(shown.map(|column| Item {
                    name: name(&column.name),
                    value: column.value.clone(),
                    at: None,
                }));
            }
            Relation::Element { alias, value } => {
                items.push(Item { name: alias.clone(), value: value.clone(), at: None });
            }
        }
    }
    items
}

/// The scope of a table under another alias, which is then the only one.
pub(super) fn renamed_table<'p>(scope: Scope<'p>, alias: &str) -> Scope<'p> {
    let alias = Some(alias.to_owned());
    let relations = match scope.relations.as_slice() {
        [Relation::Element { value, .. }] => vec![Relation::Element { alias, value: value.clone() }],
        relations => {
            let open = relations.iter().any(|relation| matches!(relation, Relation::Table { open: true, .. }));
            let mut columns = Vec::new();
            for relation in relations {
                match relation {
                    Relation::Table { columns: own, .. } => {
                        columns.extend(own.iter().filter(|column| !column.qualified_only).cloned());
                    }
                    Relation::Element { alias, value } => columns.push(ScopeColumn {
                        name: alias.clone().unwrap_or_default(),
                        value: value.clone(),
                        hidden: false,
                        qualified_only: false,
                    }),
                }
            }
            vec![Relation::Table { alias, columns, open }]
        }
    };
    Scope { relations, ..scope }
}

/// The scope after changes of columns, all of them at once.
///
/// # Errors
/// If there is no such column, or, but for DROP, several.
pub(super) fn changed<'p>(mut scope: Scope<'p>, changes: Vec<(&Ident, Change)>) -> Result<Scope<'p>> {
    let mut places = Vec::with_capacity(changes.len());
    for (name, change) in changes {
        for relation in &mut scope.relations {
            relation.open_element(&name.value);
        }
        let found = found(&scope, name);
        if found.is_empty() {
            return Err(missing(&scope, name));
        }
        if found.len() > 1 && !matches!(change, Change::Dropped) {
            let message = format!("the name {} is ambiguous: the table has several columns of it", name.value);
            return Err(invalid(message, place_of(name.span)).about(&name.value));
        }
        places.push((found, change));
    }
    let mut of_aliases = Vec::new();
    for relation in &mut scope.relations {
        if let Relation::Table { alias, columns, open } = relation
            && alias.is_some()
        {
            let was = columns.iter().cloned().map(|column| ScopeColumn { qualified_only: true, ..column });
            of_aliases.push(Relation::Table { alias: alias.take(), columns: was.collect(), open: *open });
            // Places count those that only the alias has, so these stay.
            *open = false;
        }
    }
    for (found, change) in places {
        for (relation, place) in found {
            let Some(Relation::Table { columns, .. }) = scope.relations.get_mut(relation) else { continue };
            let Some(column) = columns.get_mut(place) else { continue };
            match &change {
                Change::Value(value) => column.value = value.clone(),
                Change::Renamed(name) => column.name = name.clone(),
                Change::Dropped => column.qualified_only = true,
            }
        }
    }
    scope.relations.extend(of_aliases);
    Ok(scope)
}

/// Where the visible columns of a name are: their tables, and their places in these.
fn found(scope: &Scope<'_>, name: &Ident) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (i, relation) in scope.relations.iter().enumerate() {
        let Relation::Table { columns, .. } = relation else { continue };
        let is = |column: &ScopeColumn| {
            !column.hidden && !column.qualified_only && column.name.eq_ignore_ascii_case(&name.value)
        };
        found.extend(columns.iter().enumerate().filter(|(_, column)| is(column)).map(|(place, _)| (i, place)));
    }
    found
}

fn missing(scope: &Scope<'_>, name: &Ident) -> tidegate_model::Failure {
    let items = visible(scope);
    let known = items.iter().filter_map(|item| item.name.as_deref());
    let hint = nearest(&name.value, known).map_or(String::new(), |near| format!("; did you mean {near}?"));
    let message = format!("the table before |> has no column {}{hint}", name.value);
    fail(Code::UnknownColumn, message, place_of(name.span)).about(&name.value)
}
