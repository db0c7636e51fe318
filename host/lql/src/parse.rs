//! From clauses to rules: values get their types, charts and selects are merged, and the table of the sandbox is
//! chosen.

use chrono::{NaiveDateTime, Utc};

use crate::cast::{cast, from_instant, guess};
use crate::error::{CHARTS, ErrorKind, Fault, LqlError, Position, excerpt};
use crate::moment::{Instant, Moment, Origin};
use crate::rules::{
    Aggregate, Chart, Filter, Level, Literal, Modifiers, Operand, Operator, Period, Query, Select, Value,
};
use crate::schema::{Field, Schema, nearest};
use crate::shorthand::{Shorthand, Span};
use crate::syntax::{Clause, Item, clauses};
use crate::value::{Quotes, Time, Written};

/// The context of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A source whose fields are known. Fields must exist and values must have their types.
    Schema,
    /// Unknown fields. The types of values are guessed.
    Schemaless,
    /// Unknown fields, over the tables that an endpoint grants.
    Sandbox,
}

/// Parses a query. Relative times refer to the present.
///
/// `schema` is used in [`Mode::Schema`] only, where an absent one has no fields. `tables` is used in [`Mode::Sandbox`]
/// only, where [`Query::from`] becomes one of them.
///
/// # Errors
///
/// What the text has wrong, and where.
pub fn parse(text: &str, mode: Mode, schema: Option<&Schema>, tables: &[String]) -> Result<Query, LqlError> {
    parse_at(text, mode, schema, tables, Utc::now().naive_utc())
}

/// [`parse`] with relative times that refer to `now`, in UTC.
///
/// # Errors
///
/// What the text has wrong, and where.
pub fn parse_at(
    text: &str,
    mode: Mode,
    schema: Option<&Schema>,
    tables: &[String],
    now: NaiveDateTime,
) -> Result<Query, LqlError> {
    if text.len() > crate::MAX_LENGTH {
        let message = format!("a query has at most {} bytes, this one has {}", crate::MAX_LENGTH, text.len());
        return Err(Fault::new(ErrorKind::TooLong, message, 0).locate(text));
    }
    let none = Schema::new();
    let schema = (mode == Mode::Schema).then(|| schema.unwrap_or(&none));
    let builder = Builder { text, schema, now };
    let items = clauses(text).map_err(|fault| fault.locate(text))?;
    let mut query = builder.query(&items).map_err(|fault| fault.locate(text))?;
    if mode == Mode::Sandbox {
        let written = items.iter().find(|item| matches!(item.clause, Clause::From(_)));
        let offset = written.map_or(0, |item| item.offset);
        let table = choose(query.from.as_deref(), tables, offset);
        query.from = Some(table.map_err(|fault| fault.locate(text))?);
    }
    Ok(query)
}

struct Builder<'a> {
    text: &'a str,
    schema: Option<&'a Schema>,
    now: NaiveDateTime,
}

impl Builder<'_> {
    fn query(&self, items: &[Item<'_>]) -> Result<Query, Fault> {
        let from = from(items)?;
        let mut query = Query { from, ..Query::default() };
        for item in items {
            match &item.clause {
                Clause::From(_) | Clause::Group(_) | Clause::Aggregate(..) => {}
                Clause::Select(path, alias) => query.select.push(Select {
                    path: path.to_string(),
                    alias: alias.map(str::to_owned),
                    wildcard: path == "*",
                    position: Position::of(self.text, item.offset),
                }),
                filter => query.filters.push(self.filter(item, filter)?),
            }
        }
        query.chart = self.chart(items)?;
        query.select = merged(query.select);
        Ok(query)
    }

    fn filter(&self, item: &Item<'_>, clause: &Clause<'_>) -> Result<Filter, Fault> {
        let mut modifiers = Modifiers { negate: item.negate, ..Modifiers::default() };
        let mut shorthand = None;
        let (path, operator, operand) = match clause {
            Clause::Timestamp(operator, time) => {
                self.field("timestamp", item.offset)?;
                let (operand, origin) = match *time {
                    Time::One(instant) => (Operand::One(known(instant)), Some(instant.origin())),
                    Time::Range(low, high, origin) => (Operand::Range(known(low), known(high)), origin),
                    Time::Relative(relative) => {
                        shorthand = Some(relative.text());
                        (self.relative(relative), Some(Origin::Absolute))
                    }
                };
                modifiers.timestamp_origin = origin;
                ("timestamp", *operator, operand)
            }
            Clause::Levels(from, to) => {
                self.field("metadata.level", item.offset)?;
                let levels = Level::between(*from, *to);
                ("metadata.level", Operator::Equal, Operand::Levels(levels))
            }
            Clause::Message(operator, text, quotes) => {
                let field = self.field("event_message", item.offset)?;
                modifiers.quoted_string = *quotes == Quotes::Quoted;
                let literal = typed(field, "event_message", *operator, text, item.offset)?;
                ("event_message", *operator, Operand::One(literal))
            }
            Clause::Filter(path, operator, written) => {
                let field = self.field(path, item.offset)?;
                modifiers.quoted_string = matches!(written, Written::One(_, Quotes::Quoted));
                let literal = |text: &str| typed(field, path, *operator, text, item.offset);
                let operand = match written {
                    Written::Null => {
                        Operand::One(Literal { value: Value::Null, text: "NULL".to_owned(), guessed: false })
                    }
                    Written::One(text, _) => Operand::One(literal(text)?),
                    Written::Range(low, high) => Operand::Range(literal(low)?, literal(high)?),
                };
                (path.as_ref(), *operator, operand)
            }
            // The caller handles these clauses itself.
            Clause::From(_) | Clause::Group(_) | Clause::Aggregate(..) | Clause::Select(..) => {
                return Err(Fault::new(ErrorKind::Syntax, "this is no filter", item.offset));
            }
        };
        // Two ends are a range whatever operator stands before them.
        let range = matches!(operand, Operand::Range(..));
        Ok(Filter {
            path: path.to_owned(),
            operator: if range { Operator::Range } else { operator },
            operand,
            modifiers,
            shorthand,
            position: Position::of(self.text, item.offset),
        })
    }

    fn relative(&self, shorthand: Shorthand) -> Operand {
        let literal = |time| known(Instant::At(Moment::new(time, 0), Origin::Absolute));
        match shorthand.span(self.now) {
            Span::At(time) => Operand::One(literal(time)),
            Span::Between(start, end) => Operand::Range(literal(start), literal(end)),
        }
    }

    /// The field with this name. Without a schema every name is accepted, and nothing is known of it.
    fn field(&self, path: &str, offset: usize) -> Result<Option<Field>, Fault> {
        let Some(schema) = self.schema else { return Ok(None) };
        let name = excerpt(path);
        let message = match schema.get(path) {
            Some(field) if field.kind != crate::FieldType::Record => return Ok(Some(field)),
            Some(_) => {
                format!("field `{name}` is a record and cannot be queried itself; name one of its fields, {name}.…")
            }
            None => {
                let hint = match (path, schema.nearest(path)) {
                    ("c" | "chart", _) => format!(". {CHARTS}"),
                    (_, Some(near)) => format!("; did you mean `{near}`?"),
                    (_, None) => String::new(),
                };
                format!("there is no field `{name}` in the schema{hint}")
            }
        };
        Err(Fault::new(ErrorKind::FieldNotFound, message, offset))
    }

    /// Merges the clauses of a chart; later ones take precedence.
    fn chart(&self, items: &[Item<'_>]) -> Result<Option<Chart>, Fault> {
        let mut chart: Option<Chart> = None;
        for item in items {
            let position = Position::of(self.text, item.offset);
            let new = || Chart {
                path: "timestamp".to_owned(),
                aggregate: Aggregate::Count,
                period: Period::Minute,
                value_type: None,
                position,
            };
            match &item.clause {
                Clause::Group(period) => chart.get_or_insert_with(new).period = *period,
                Clause::Aggregate(aggregate, path) => {
                    let chart = chart.get_or_insert_with(new);
                    chart.aggregate = *aggregate;
                    chart.path = path.to_string();
                    chart.position = position;
                }
                _ => {}
            }
        }
        if let (Some(chart), Some(schema)) = (&mut chart, self.schema) {
            self.field(&chart.path, chart.position.offset)?;
            chart.value_type = schema.type_name(&chart.path);
        }
        Ok(chart)
    }
}

fn known(instant: Instant) -> Literal {
    let value = from_instant(instant);
    let text = match instant {
        Instant::Date(date) => date.to_string(),
        Instant::At(moment, _) => moment.to_string(),
    };
    Literal { value, text, guessed: false }
}

/// The text in the type of the field. For a list that is the type of its elements, except that a regular expression
/// remains text.
fn typed(field: Option<Field>, path: &str, operator: Operator, text: &str, offset: usize) -> Result<Literal, Fault> {
    let literal = |value, guessed| Literal { value, text: text.to_owned(), guessed };
    let Some(field) = field else { return Ok(literal(guess(text), true)) };
    let regex = matches!(operator, Operator::Regex | Operator::ListIncludesRegex);
    if field.list && regex {
        return Ok(literal(Value::Text(text.to_owned()), false));
    }
    let value = cast(field.kind, text).map_err(|(kind, expected)| {
        let (path, text) = (excerpt(path), excerpt(text));
        let message = format!("field `{path}` takes {expected}; `{text}` is not");
        Fault::new(kind, message, offset)
    })?;
    Ok(literal(value, false))
}

/// A wildcard replaces all others. Of selects with one path the first is kept.
fn merged(select: Vec<Select>) -> Vec<Select> {
    if let Some(wildcard) = select.iter().find(|s| s.wildcard) {
        return vec![wildcard.clone()];
    }
    let mut seen = std::collections::HashSet::new();
    select.into_iter().filter(|s| seen.insert(s.path.clone())).collect()
}

fn from(items: &[Item<'_>]) -> Result<Option<String>, Fault> {
    const LONGEST: usize = 255;
    let mut found = None;
    for item in items {
        let Clause::From(name) = item.clause else { continue };
        if found.is_some() {
            let message = "a query has one `f:` only; ask each table in a query of its own";
            return Err(Fault::new(ErrorKind::MultipleFrom, message, item.offset));
        }
        if name.len() > LONGEST || name.starts_with(|c: char| c.is_ascii_digit()) {
            let message = format!(
                "`{}` is no table name: a letter or _ first, then letters, digits and _, at most {LONGEST}",
                excerpt(name)
            );
            return Err(Fault::new(ErrorKind::InvalidFrom, message, item.offset));
        }
        found = Some(name.to_owned());
    }
    Ok(found)
}

/// The granted table for a sandboxed query.
fn choose(from: Option<&str>, tables: &[String], offset: usize) -> Result<String, Fault> {
    const SHOWN: usize = 50;
    let list = || {
        let mut names: Vec<_> = tables.iter().take(SHOWN).map(|table| format!("`{}`", excerpt(table))).collect();
        if tables.len() > SHOWN {
            names.push(format!("and {} more", tables.len() - SHOWN));
        }
        names.join(", ")
    };
    let fault = |kind, message| Err(Fault::new(kind, message, offset));
    match (from, tables) {
        (_, []) => fault(ErrorKind::NoCte, "the endpoint's query has no WITH, so there is no table to ask".to_owned()),
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            fault(ErrorKind::FromRequired, format!("several tables are there, choose one with f:name: {}", list()))
        }
        (Some(name), _) if tables.iter().any(|table| table == name) => Ok(name.to_owned()),
        (Some(name), _) => {
            let near = nearest(name, tables.iter().map(String::as_str))
                .map(|near| format!("; did you mean `{}`", excerpt(near)))
                .unwrap_or_default();
            let name = excerpt(name);
            fault(ErrorKind::UnknownCte, format!("there is no table `{name}`{near}. The tables are: {}", list()))
        }
    }
}
