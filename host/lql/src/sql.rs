//! From rules to a SQL syntax tree over one granted table, in the BigQuery dialect.
//!
//! Records are repeated, one element or many. A filter on a nested path asks whether *any* element
//! fits, by `EXISTS` over `UNNEST`, so that a row comes out once however many of its elements fit;
//! negated, that no element fits, so that a row without the record stays. Nested columns of the
//! result come by `LEFT JOIN UNNEST`, one join a record however many columns are taken from it.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{BinaryOperator, Expr, Join, Query as SqlQuery};

use crate::cast::cast;
use crate::error::{ErrorKind, LqlError, Position, excerpt};
use crate::rules::{Aggregate, Chart, Filter, Literal, Operand, Operator, Period, Query, Value};
use crate::schema::{Field, FieldType, Schema};
use crate::{MAX_DEPTH, tree};

/// The alias of the table. It and the aliases of elements must not be names of columns, because a
/// table's own column wins over an alias.
const ROW: &str = "lql_row";
/// The most `UNNEST`s in one statement.
const MAX_UNNESTS: usize = 200;

/// A statement that is ready to be resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The statement. What the caller wrote is in it as values and quoted names. Resolve the tree
    /// itself: printing it and parsing the text again would read backslashes as escapes.
    pub statement: SqlQuery,
    /// The names of the result's columns, in order.
    pub columns: Vec<String>,
}

/// Translates a query over the granted table `table`; `query.from` was settled by [`crate::parse`].
///
/// With a chart the result is `timestamp` and `count`, and selects do not matter. Else it is the
/// selected columns; without any, or with `s:*`, the columns that the filters name; without
/// filters either, `timestamp`.
///
/// `columns` tells the types of the table's columns and nested fields by dotted path, as far as
/// they are known. Values that had no schema when they were parsed take these types; where a type
/// is not known, a quoted value is text and a bare one what it looks like.
///
/// # Errors
///
/// A value that does not fit its column, a path that cannot be one, two columns of one name.
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
        for (path, name, position) in wanted(query)? {
            projection.push(tree::column(builder.joined(&path, position)?, &name));
            names.push(name);
        }
    }
    let from = vec![tree::relation(tree::table(table, ROW), builder.joins)];
    let select = tree::select(projection, from, selection);
    let statement = if chart.is_some() { tree::grouped(select) } else { tree::query(select) };
    Ok(Translation { statement, columns: names })
}

const START: Position = Position { offset: 0, line: 1, column: 1 };

/// Path, name and place of each column of the result.
fn wanted(query: &Query) -> Result<Vec<(String, String, Position)>, LqlError> {
    let flat = |path: &str| path.replace('.', "_");
    let mut out: Vec<(String, String, Position)> = Vec::new();
    if query.select.iter().any(|select| !select.wildcard) {
        for select in query.select.iter().filter(|select| !select.wildcard) {
            let name = select.alias.clone().unwrap_or_else(|| flat(&select.path));
            out.push((select.path.clone(), name, select.position));
        }
    } else {
        let mut seen = HashSet::new();
        for filter in query.filters.iter().filter(|filter| seen.insert(&filter.path)) {
            out.push((filter.path.clone(), flat(&filter.path), filter.position));
        }
    }
    if out.is_empty() {
        out.push(("timestamp".to_owned(), "timestamp".to_owned(), START));
    }
    let mut seen = HashSet::new();
    // Result columns differ by more than case, as in BigQuery.
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
    /// Joined records by path: the alias of their elements.
    joined: HashMap<String, String>,
}

impl Builder<'_> {
    fn field(&self, path: &str) -> Option<Field> {
        self.columns.and_then(|columns| columns.get(path))
    }

    /// One more `UNNEST`, unless there are too many.
    fn unnest(&mut self, position: Position) -> Result<(), LqlError> {
        self.unnests += 1;
        if self.unnests > MAX_UNNESTS {
            let message = format!("the paths of this query are too many and too deep: over {MAX_UNNESTS} records");
            return Err(LqlError::new(ErrorKind::InvalidPath, message, position));
        }
        Ok(())
    }

    /// The column, with a left join for each record on the way that has none yet.
    fn joined(&mut self, path: &str, position: Position) -> Result<Expr, LqlError> {
        let (records, column) = split(path, position)?;
        let mut alias = ROW.to_owned();
        let mut so_far = String::new();
        for record in records {
            so_far.push_str(record);
            so_far.push('.');
            alias = match self.joined.get(&so_far) {
                Some(known) => known.clone(),
                None => {
                    self.unnest(position)?;
                    let new = format!("lql_join_{}", self.joins.len());
                    let array = tree::member(&alias, record);
                    self.joins.push(tree::left_join(tree::unnest(array, &new)));
                    self.joined.insert(so_far.clone(), new.clone());
                    new
                }
            };
        }
        Ok(tree::member(&alias, column))
    }

    fn chart(&mut self, chart: &Chart) -> Result<(Expr, Expr), LqlError> {
        let unit = match chart.period {
            Period::Second => "SECOND",
            Period::Minute => "MINUTE",
            Period::Hour => "HOUR",
            Period::Day => "DAY",
        };
        let timestamp = tree::member(ROW, "timestamp");
        let bucket = tree::call("TIMESTAMP_TRUNC", vec![timestamp, tree::word(unit)]);
        let of = self.joined(&chart.path, START)?;
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
        let (records, column) = split(&filter.path, filter.position)?;
        let field = self.field(&filter.path);
        let negate = filter.modifiers.negate;
        let mut elements = Vec::new();
        let mut alias = ROW.to_owned();
        for record in records {
            self.unnest(filter.position)?;
            let new = format!("lql_{}", elements.len());
            elements.push(tree::unnest(tree::member(&alias, record), &new));
            alias = new;
        }
        let mut value = tree::member(&alias, column);
        let is_null = filter.operator == Operator::Equal
            && matches!(&filter.operand, Operand::One(Literal { value: Value::Null, .. }));
        if is_null {
            // A row whose path leads nowhere has no value there: null is "no element has one".
            let found = Expr::IsNotNull(Box::new(value.clone()));
            return Ok(match (elements.is_empty(), negate) {
                (true, false) => Expr::IsNull(Box::new(value)),
                (true, true) => found,
                (false, negate) => exists(elements, found, !negate),
            });
        }
        // The elements of a list are compared one by one, unless the operator takes the list.
        let over_list = filter.operator == Operator::ListIncludesRegex
            || filter.operator != Operator::ListIncludes && field.is_some_and(|field| field.list);
        if over_list {
            self.unnest(filter.position)?;
            elements.push(tree::unnest(value, "lql_item"));
            value = tree::word("lql_item");
        }
        let condition = condition(filter, field, value.clone())?;
        Ok(match (elements.is_empty(), negate) {
            (false, negate) => exists(elements, condition, negate),
            (true, false) => condition,
            (true, true) => {
                let missing = Expr::IsNull(Box::new(value));
                let either = tree::binary(missing, BinaryOperator::Or, tree::not(condition));
                Expr::Nested(Box::new(either))
            }
        })
    }
}

fn exists(elements: Vec<sqlparser::ast::TableFactor>, condition: Expr, negated: bool) -> Expr {
    let from = elements.into_iter().map(|element| tree::relation(element, Vec::new())).collect();
    let one = sqlparser::ast::SelectItem::UnnamedExpr(tree::integer(1));
    let select = tree::select(vec![one], from, Some(condition));
    Expr::Exists { subquery: Box::new(tree::query(select)), negated }
}

/// The records on the way, and the column in the last of them.
fn split(path: &str, position: Position) -> Result<(Vec<&str>, &str), LqlError> {
    let refuse = |why: String| {
        let message = format!("`{}` is no path: {why}", excerpt(path));
        Err(LqlError::new(ErrorKind::InvalidPath, message, position))
    };
    let mut parts: Vec<&str> = path.split('.').take(MAX_DEPTH + 1).collect();
    if parts.len() > MAX_DEPTH {
        return refuse(format!("it has more than {MAX_DEPTH} parts"));
    }
    if parts.iter().any(|part| part.is_empty()) {
        return refuse("there must be a name before, between and after the dots".to_owned());
    }
    let column = parts.pop().unwrap_or(path);
    Ok((parts, column))
}

fn condition(filter: &Filter, field: Option<Field>, column: Expr) -> Result<Expr, LqlError> {
    let low = match &filter.operand {
        Operand::Levels(levels) => {
            let list = levels.iter().map(|level| tree::text(level.name())).collect();
            return Ok(Expr::InList { expr: Box::new(column), list, negated: false });
        }
        Operand::Range(low, high) => {
            return Ok(Expr::Between {
                expr: Box::new(column),
                negated: false,
                low: Box::new(literal(filter, field, low)?),
                high: Box::new(literal(filter, field, high)?),
            });
        }
        Operand::One(one) => one,
    };
    let compare = |op| Ok(tree::binary(column.clone(), op, literal(filter, field, low)?));
    match filter.operator {
        Operator::Equal | Operator::Range => compare(BinaryOperator::Eq),
        Operator::Greater => compare(BinaryOperator::Gt),
        Operator::GreaterOrEqual => compare(BinaryOperator::GtEq),
        Operator::Less => compare(BinaryOperator::Lt),
        Operator::LessOrEqual => compare(BinaryOperator::LtEq),
        Operator::Regex | Operator::ListIncludesRegex => {
            Ok(tree::call("REGEXP_CONTAINS", vec![column, tree::text(low.text.clone())]))
        }
        Operator::Contains => {
            let place = tree::call("STRPOS", vec![column, tree::text(low.text.clone())]);
            Ok(tree::binary(place, BinaryOperator::Gt, tree::integer(0)))
        }
        Operator::ListIncludes => Ok(Expr::InUnnest {
            expr: Box::new(literal(filter, field, low)?),
            array_expr: Box::new(column),
            negated: false,
        }),
    }
}

/// The value in the column's type. Times are texts without a zone, which BigQuery reads as either
/// TIMESTAMP or DATETIME, whichever the column is; over an integer column they are microseconds.
fn literal(filter: &Filter, field: Option<Field>, literal: &Literal) -> Result<Expr, LqlError> {
    let cast_value;
    let value = match (field, &literal.value) {
        (_, Value::Null) => &literal.value,
        (Some(field), _) if literal.guessed && field.kind != FieldType::Record => {
            cast_value = cast(field.kind, &literal.text).map_err(|(kind, expected)| {
                let (path, text) = (excerpt(&filter.path), excerpt(&literal.text));
                let message = format!("column `{path}` takes {expected}; `{text}` is not");
                LqlError::new(kind, message, filter.position)
            })?;
            &cast_value
        }
        (None, _) if literal.guessed && filter.modifiers.quoted_string => {
            return Ok(tree::text(literal.text.clone()));
        }
        _ => &literal.value,
    };
    let micros = field.is_some_and(|field| field.kind == FieldType::Integer);
    Ok(match value {
        Value::Null => tree::null(),
        Value::Boolean(value) => tree::boolean(*value),
        Value::Integer(value) => tree::integer(*value),
        Value::Float(value) => tree::float(*value),
        Value::Text(value) => tree::text(value.clone()),
        Value::Date(value) if micros => {
            let midnight = value.and_time(chrono::NaiveTime::MIN);
            tree::integer(midnight.and_utc().timestamp_micros())
        }
        Value::Date(value) => tree::text(value.to_string()),
        Value::Datetime(value) if micros => tree::integer(value.utc().and_utc().timestamp_micros()),
        Value::Datetime(value) => tree::text(value.exact()),
    })
}
