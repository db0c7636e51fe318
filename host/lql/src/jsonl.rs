//! One line of `tidegate lql parse --jsonl`: a request as JSON, answered by the rules or the error as JSON. Every line
//! is answered, so that requests and answers of a stream correspond.

use serde_json::{Map, Value as Json, json};

use crate::error::{ErrorKind, LqlError, Position, excerpt};
use crate::parse::{Mode, parse};
use crate::rules::{Filter, Literal, Operand, Query, Value};
use crate::schema::Schema;

/// Answers one line. Input: `{"lql", "mode", "schema"?, "ctes"?}`. Output: `{"ok": true, "filters", "chart", "select",
/// "from"}` or `{"ok": false, "error_kind", "message", "offset", "line", "column"}`. It never fails.
#[must_use]
pub fn parse_line(line: &str) -> String {
    match answer(line) {
        Ok(query) => query_json(&query),
        Err(error) => json!({
            "ok": false,
            "error_kind": error.kind.name(),
            "message": error.to_string(),
            "offset": error.position.offset,
            "line": error.position.line,
            "column": error.position.column,
        }),
    }
    .to_string()
}

fn answer(line: &str) -> Result<Query, LqlError> {
    let request: Json = serde_json::from_str(line).map_err(|error| refused(&format!("no JSON: {error}")))?;
    let request = request.as_object().ok_or_else(|| refused("not a JSON object"))?;
    let field = |name: &str| request.get(name).filter(|value| !value.is_null());
    let text = field("lql").and_then(Json::as_str).ok_or_else(|| refused("`lql` is not a text"))?;
    let mode = match field("mode").map(|mode| mode.as_str()) {
        None | Some(Some("schemaless")) => Mode::Schemaless,
        Some(Some("schema")) => Mode::Schema,
        Some(Some("sandbox")) => Mode::Sandbox,
        Some(_) => return Err(refused("`mode` is not schema, schemaless or sandbox")),
    };
    let schema = field("schema").map(schema).transpose()?;
    let tables = field("ctes").map(tables).transpose()?.unwrap_or_default();
    parse(text, mode, schema.as_ref(), &tables)
}

fn refused(why: &str) -> LqlError {
    let message = format!(
        "the line is no request: {why}; it is {{\"lql\": text, \"mode\": \"schema\", \"schemaless\" \
         or \"sandbox\", \"schema\": {{path: type}}, \"ctes\": [name]}}"
    );
    LqlError::new(ErrorKind::InvalidRequest, message, Position { offset: 0, line: 1, column: 1 })
}

fn schema(json: &Json) -> Result<Schema, LqlError> {
    let fields = json.as_object().ok_or_else(|| refused("`schema` is not an object"))?;
    let mut schema = Schema::new();
    for (path, kind) in fields {
        let known = kind.as_str().is_some_and(|kind| schema.insert_named(path, kind));
        if !known {
            return Err(refused(&format!(
                "the type of `{}` is not string, integer, float, boolean, datetime, map or list: and one of these",
                excerpt(path)
            )));
        }
    }
    Ok(schema)
}

fn tables(json: &Json) -> Result<Vec<String>, LqlError> {
    json.as_array()
        .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect())
        .ok_or_else(|| refused("`ctes` is not a list of names"))
}

fn query_json(query: &Query) -> Json {
    let chart = query.chart.as_ref().map(|chart| {
        json!({
            "path": chart.path,
            "aggregate": chart.aggregate.name(),
            "period": chart.period.name(),
            "value_type": chart.value_type,
        })
    });
    let select = query
        .select
        .iter()
        .map(|select| json!({"path": select.path, "alias": select.alias, "wildcard": select.wildcard}));
    json!({
        "ok": true,
        "filters": query.filters.iter().flat_map(filter_json).collect::<Vec<_>>(),
        "chart": chart,
        "select": select.collect::<Vec<_>>(),
        "from": query.from,
    })
}

/// One object; for a range of levels one equality for each of them.
fn filter_json(filter: &Filter) -> Vec<Json> {
    let mut modifiers = Map::new();
    if filter.modifiers.quoted_string {
        modifiers.insert("quoted_string".to_owned(), true.into());
    }
    if filter.modifiers.negate {
        modifiers.insert("negate".to_owned(), true.into());
    }
    if let Some(origin) = filter.modifiers.timestamp_origin {
        modifiers.insert("timestamp_origin".to_owned(), origin.name().into());
    }
    let mut object = Map::new();
    object.insert("path".to_owned(), filter.path.clone().into());
    object.insert("operator".to_owned(), filter.operator.name().into());
    object.insert("modifiers".to_owned(), modifiers.into());
    if let Some(shorthand) = &filter.shorthand {
        object.insert("shorthand".to_owned(), shorthand.clone().into());
    }
    let value_type = match &filter.operand {
        _ if filter.shorthand.is_some() => Some("relative"),
        Operand::One(literal) | Operand::Range(literal, _) => value_type(literal),
        Operand::Levels(_) => None,
    };
    if let Some(name) = value_type {
        object.insert("value_type".to_owned(), name.into());
    }
    match &filter.operand {
        Operand::One(literal) => {
            object.insert("value".to_owned(), value_json(literal));
        }
        Operand::Range(low, high) => {
            object.insert("values".to_owned(), json!([value_json(low), value_json(high)]));
        }
        Operand::Levels(levels) => {
            let one = |name: &str| {
                let mut object = object.clone();
                object.insert("value".to_owned(), name.into());
                object.into()
            };
            return levels.iter().map(|level| one(level.name())).collect();
        }
    }
    vec![object.into()]
}

fn value_type(literal: &Literal) -> Option<&'static str> {
    match literal.value {
        Value::Null => Some("null"),
        Value::Date(_) => Some("date"),
        Value::Datetime(_) => Some("datetime"),
        _ => None,
    }
}

fn value_json(literal: &Literal) -> Json {
    match &literal.value {
        Value::Null => Json::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Text(value) => value.clone().into(),
        Value::Date(value) => value.to_string().into(),
        Value::Datetime(value) => value.to_string().into(),
    }
}
