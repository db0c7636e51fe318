//! From rules to a SQL syntax tree over one granted table, in the BigQuery dialect.
//!
//! Records are repeated: a row may have one element or many. A filter on a nested path asks whether *any* element
//! matches, by `EXISTS` over `UNNEST`, so that a row occurs once however many of its elements match. A negated filter
//! asks that no element matches, so that a row without the record remains. Nested columns of the result are read by
//! `LEFT JOIN UNNEST`, one join for each record however many columns are taken from it. A real list of records, if the
//! table is known to have one, is read by `ARRAY(SELECT ...)`, so that a row remains one row.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{
    BinaryOperator, Expr, Join, Query as SqlQuery, SelectItem, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

use crate::condition::{condition, may_be_null};
use crate::error::{ErrorKind, LqlError, Position, excerpt};
use crate::path::{Hop, Place, meant};
use crate::rules::{Aggregate, Chart, Filter, Literal, Operand, Operator, Period, Query, Value};
use crate::schema::{FieldType, Schema};
use crate::tree;

/// The alias of the table. It and the aliases of elements must not be names of columns, because a column of the table
/// takes precedence over an alias.
const ROW: &str = "lql_row";
/// The alias of the elements of a list of values.
const ITEM: &str = "lql_item";
/// The most `UNNEST`s in one statement.
const MAX_UNNESTS: usize = 200;

/// A statement that can be resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The statement. What the caller wrote is in it as values and quoted names. The tree itself must be resolved:
    /// printing and parsing it would read backslashes as escapes.
    pub statement: SqlQuery,
    /// The names of the columns of the result, in order.
    pub columns: Vec<String>,
}

/// Translates a query over the granted table `table`. [`crate::parse`] has already decided `query.from`.
///
/// With a chart the result is `timestamp` and `count`, and selects are ignored. Otherwise it is the selected columns;
/// without any, or with `s:*`, the columns that the filters name; without filters, `timestamp`.
///
/// `columns` has the types of the columns and nested fields of the table by dotted path, as far as known. Values
/// without a type from a schema take these types. If a type is not known, a quoted value is text, and the type of a
/// bare value is guessed.
///
/// # Errors
///
/// A text that is not a time where the column has times, a path that leads nowhere, two columns with one name.
pub fn to_sql(query: &Query, table: &str, columns: Option<&Schema>) -> Result<Translation, LqlError> {
    let mut builder = Builder { columns, unnests: 0, joins: Vec::new(), joined: HashMap::new() };
    let mut conditions = Vec::with_capacity(query.filters.len());
    for filter in &query.filters {
        conditions.push(builder.filter(filter)?);
    }
    let selection = tree::all(conditions);
    let mut names = Vec::new();
    let mut projection = Vec::new();
    let chart = query.chart.as_ref();
    if let Some(chart) = chart {
        let (bucket, value) = builder.chart(chart)?;
        names = vec!["timestamp".to_owned(), "count".to_owned()];
        projection = vec![tree::column(bucket, "timestamp"), tree::column(value, "count")];
    } else {
        for (path, name, position) in wanted(query, columns)? {
            projection.push(tree::column(builder.selected(&path, position)?, &name));
            names.push(name);
        }
    }
    let from = vec![tree::relation(tree::table(table, ROW), builder.joins)];
    let select = tree::select(projection, from, selection);
    let statement = if chart.is_some() { tree::grouped(select) } else { tree::query(select) };
    Ok(Translation { statement, columns: names })
}

/// A query of all columns of a table. Planning it, without running it, gives the `columns` for [`to_sql`].
#[must_use]
pub fn all_columns(table: &str) -> SqlQuery {
    let everything = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let from = vec![tree::relation(tree::table(table, ROW), Vec::new())];
    tree::query(tree::select(vec![everything], from, None))
}

const START: Position = Position { offset: 0, line: 1, column: 1 };

/// Path, name and position of each column of the result.
fn wanted(query: &Query, columns: Option<&Schema>) -> Result<Vec<(String, String, Position)>, LqlError> {
    let flat = |path: &str| path.replace('.', "_").replace('`', "");
    let mut out: Vec<(String, String, Position)> = Vec::new();
    if query.select.iter().any(|select| !select.wildcard) {
        for select in query.select.iter().filter(|select| !select.wildcard) {
            let path = meant(&select.path, columns).into_owned();
            let name = select.alias.clone().unwrap_or_else(|| flat(&path));
            out.push((path, name, select.position));
        }
    } else {
        let mut seen = HashSet::new();
        for filter in &query.filters {
            let path = meant(&filter.path, columns).into_owned();
            if seen.insert(path.clone()) {
                let name = flat(&path);
                out.push((path, name, filter.position));
            }
        }
    }
    if out.is_empty() {
        out.push(("timestamp".to_owned(), "timestamp".to_owned(), START));
    }
    let mut seen = HashSet::new();
    // Names of result columns must differ by more than case, as in BigQuery.
    match out.iter().find(|(_, name, _)| !seen.insert(name.to_lowercase())) {
        Some((_, name, position)) => {
            let message = format!(
                "two columns of the result are called `{}`; name one of them otherwise, s:path@name",
                excerpt(name)
            );
            Err(LqlError::new(ErrorKind::DuplicateColumn, message, *position))
        }
        None => Ok(out),
    }
}

struct Builder<'a> {
    columns: Option<&'a Schema>,
    unnests: usize,
    joins: Vec<Join>,
    /// Joined records by path, with the alias of their elements.
    joined: HashMap<String, String>,
}

impl Builder<'_> {
    /// Counts one more `UNNEST`; fails if there are too many.
    fn unnest(&mut self, position: Position) -> Result<(), LqlError> {
        self.unnests += 1;
        if self.unnests > MAX_UNNESTS {
            let message = format!("the paths of this query are too many and too deep: over {MAX_UNNESTS} records");
            return Err(LqlError::new(ErrorKind::InvalidPath, message, position));
        }
        Ok(())
    }

    /// The alias of the elements of a record. Adds a left join for each record on the path that has none yet.
    fn join(&mut self, hops: &[Hop<'_>], position: Position) -> Result<String, LqlError> {
        let mut alias = ROW.to_owned();
        for hop in hops {
            alias = match self.joined.get(hop.path) {
                Some(known) => known.clone(),
                None => {
                    self.unnest(position)?;
                    let new = format!("lql_join_{}", self.joins.len());
                    let array = tree::member(&alias, hop.name);
                    self.joins.push(tree::left_join(tree::unnest(array, &new)));
                    self.joined.insert(hop.path.to_owned(), new.clone());
                    new
                }
            };
        }
        Ok(alias)
    }

    /// The `UNNEST`s of the records, each inside the one before, and the alias of the last.
    fn elements(
        &mut self,
        hops: &[Hop<'_>],
        outer: &str,
        position: Position,
    ) -> Result<(Vec<TableFactor>, String), LqlError> {
        let mut elements = Vec::with_capacity(hops.len());
        let mut alias = outer.to_owned();
        for hop in hops {
            self.unnest(position)?;
            let new = format!("lql_{}", elements.len());
            elements.push(tree::unnest(tree::member(&alias, hop.name), &new));
            alias = new;
        }
        Ok((elements, alias))
    }

    /// A column of the result: one value for each row. For a real list of records this is the list of its values.
    fn selected(&mut self, path: &str, position: Position) -> Result<Expr, LqlError> {
        let place = Place::of(path, self.columns, position)?;
        let single = place.hops.iter().take_while(|hop| !hop.many).count();
        let (single, many) = place.hops.split_at_checked(single).unwrap_or((&place.hops, &[]));
        let outer = self.join(single, position)?;
        if many.is_empty() {
            return Ok(tree::member(&outer, place.column));
        }
        let (mut elements, alias) = self.elements(many, &outer, position)?;
        let mut value = tree::member(&alias, place.column);
        if place.field.is_some_and(|field| field.list) {
            self.unnest(position)?;
            elements.push(tree::unnest(value, ITEM));
            value = tree::word(ITEM);
        }
        Ok(tree::array(tree::query(tree::select(vec![SelectItem::UnnamedExpr(value)], relations(elements), None))))
    }

    fn chart(&mut self, chart: &Chart) -> Result<(Expr, Expr), LqlError> {
        let unit = match chart.period {
            Period::Second => "SECOND",
            Period::Minute => "MINUTE",
            Period::Hour => "HOUR",
            Period::Day => "DAY",
        };
        Place::of("timestamp", self.columns, chart.position)?;
        let timestamp = tree::member(ROW, "timestamp");
        let bucket = tree::call("TIMESTAMP_TRUNC", vec![timestamp, tree::word(unit)]);
        // An aggregate covers every element of a list.
        let path = meant(&chart.path, self.columns);
        let place = Place::of(&path, self.columns, chart.position)?;
        let alias = self.join(&place.hops, chart.position)?;
        let mut of = tree::member(&alias, place.column);
        let scalars = place.field.is_some_and(|field| field.list && field.kind != FieldType::Record);
        if scalars && chart.aggregate != Aggregate::Count {
            self.unnest(chart.position)?;
            self.joins.push(tree::left_join(tree::unnest(of, ITEM)));
            of = tree::word(ITEM);
        }
        let value = match chart.aggregate {
            Aggregate::Average => tree::call("AVG", vec![of]),
            Aggregate::Count => tree::call("COUNT", vec![of]),
            Aggregate::CountDistinct => tree::call_distinct("COUNT", of),
            Aggregate::Sum => tree::call("SUM", vec![of]),
            Aggregate::Max => tree::call("MAX", vec![of]),
            Aggregate::Percentile(percent) => {
                let quantiles = tree::call("APPROX_QUANTILES", vec![of, tree::integer(100)]);
                let offset = tree::call("OFFSET", vec![tree::integer(i64::from(percent))]);
                tree::subscript(quantiles, offset)
            }
        };
        Ok((bucket, value))
    }

    fn filter(&mut self, filter: &Filter) -> Result<Expr, LqlError> {
        let path = meant(&filter.path, self.columns);
        let place = Place::of(&path, self.columns, filter.position)?;
        let field = place.field;
        let negate = filter.modifiers.negate;
        let (mut elements, alias) = self.elements(&place.hops, ROW, filter.position)?;
        let mut value = tree::member(&alias, place.column);
        let is_null = filter.operator == Operator::Equal
            && matches!(&filter.operand, Operand::One(Literal { value: Value::Null, .. }));
        if is_null {
            // A row without the record has no value there: NULL means that no element has one.
            let found = Expr::IsNotNull(Box::new(value.clone()));
            return Ok(match (elements.is_empty(), negate) {
                (true, false) => Expr::IsNull(Box::new(value)),
                (true, true) => found,
                (false, negate) => exists(elements, found, !negate),
            });
        }
        // A regular expression is applied to the text of a record.
        let as_text = filter.operator == Operator::Regex && field.is_some_and(|field| !field.list);
        if field.is_some_and(|field| field.kind == FieldType::Record) && !as_text {
            let name = excerpt(&path);
            let message = format!(
                "`{name}` is a record and is not compared itself; name one of its fields, {name}.…, or ask \
                 whether it is there, -{name}:NULL"
            );
            return Err(LqlError::new(ErrorKind::FieldNotFound, message, filter.position));
        }
        // The elements of a list are compared one by one, unless the operator takes the list as a whole.
        let whole = matches!(filter.operator, Operator::Equal | Operator::ListIncludes)
            && matches!(filter.operand, Operand::One(_));
        let over_list = match field {
            Some(field) => field.list && !whole,
            None => filter.operator == Operator::ListIncludesRegex,
        };
        if over_list {
            self.unnest(filter.position)?;
            elements.push(tree::unnest(value, ITEM));
            value = tree::word(ITEM);
        }
        let condition = condition(filter, field, value.clone())?;
        Ok(match (elements.is_empty(), negate) {
            (false, negate) => exists(elements, condition, negate),
            (true, false) => condition,
            (true, true) if may_be_null(filter, field) => Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(condition)))),
            (true, true) => {
                let missing = Expr::IsNull(Box::new(value));
                let either = tree::binary(missing, BinaryOperator::Or, tree::not(condition));
                Expr::Nested(Box::new(either))
            }
        })
    }
}

fn exists(elements: Vec<TableFactor>, condition: Expr, negated: bool) -> Expr {
    let one = SelectItem::UnnamedExpr(tree::integer(1));
    let select = tree::select(vec![one], relations(elements), Some(condition));
    Expr::Exists { subquery: Box::new(tree::query(select)), negated }
}

fn relations(elements: Vec<TableFactor>) -> Vec<TableWithJoins> {
    elements.into_iter().map(|element| tree::relation(element, Vec::new())).collect()
}
