//! A saved endpoint as an operation: its own path, its parameters with their types, its columns.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_model::{Errors, Format, Kind, Parameter};
use tidegate_service::tokens::Access;

use super::answers::Described;
use super::components::{answer_headers, rows_content};
use super::route::{QUERY_REFUSALS, refusals};
use super::row_schemas::AnswerSchema;
use super::schemas::reference;

/// The parameters of the route itself. No parameter of an endpoint has these names.
const RESERVED: [&str; 2] = ["sql", "lql"];

/// The parameters of a query that is followed.
const FOLLOWING: [&str; 3] = ["follow_rows", "follow_since", "last-event-id"];

/// The operation ids that are in use, so that no two are the same.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeSet<String>);

impl Ids {
    /// A new id for a name, which generated code can use as an identifier.
    fn of(&mut self, name: &str) -> String {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut id = format!("query_{plain}");
        let mut number = 2;
        while !self.0.insert(id.clone()) {
            id = format!("query_{plain}_{number}");
            number += 1;
        }
        id
    }
}

/// The path of an endpoint, and its operation `get`. `errors` sets the status of query errors, where neither the token
/// nor the endpoint chooses it.
pub(super) fn operation(
    Described { manifest, answer, tables }: &Described,
    access: Option<&Access>,
    errors: Errors,
    ids: &mut Ids,
) -> (String, Value) {
    let name = manifest.name.as_str();
    let declared = |name: &str| manifest.parameters.iter().any(|parameter| parameter.name == name);
    let own = manifest.parameters.iter().filter(|parameter| !RESERVED.contains(&parameter.name.as_str()));
    let mut parameters: Vec<Value> = own
        .map(|own| parameter(own, access.is_some_and(|access| access.pinned.contains_key(own.name.as_str()))))
        .collect();
    if manifest.settings.sandboxable {
        parameters.extend(RESERVED.map(|name| reference("parameters", name)));
        parameters.extend(FOLLOWING.iter().filter(|name| !declared(name)).map(|name| reference("parameters", name)));
    }
    if !declared("format") {
        parameters.push(reference("parameters", "format"));
    }
    parameters.push(reference("parameters", "redact"));
    let errors = access.and_then(|access| access.errors).or(manifest.settings.errors).unwrap_or(errors);
    let mut responses = refusals(QUERY_REFUSALS);
    let result = result(answer, manifest.settings.sandboxable);
    responses.insert(
        "200".to_owned(),
        json!({
            "description": "The rows.",
            "headers": answer_headers(errors),
            "content": rows_content(result, errors, manifest.settings.sandboxable),
        }),
    );
    if manifest.settings.cache_duration_seconds > 0 {
        responses.insert("304".to_owned(), json!({"description": "The answer is the one that the caller has."}));
    }
    let mut operation = json!({
        "operationId": ids.of(name),
        "tags": ["endpoints"],
        "summary": name,
        "description": manifest.description,
        "parameters": parameters,
        "responses": responses,
    });
    if let (true, Some(fields)) = (manifest.settings.sandboxable, operation.as_object_mut()) {
        fields.insert("x-tidegate-tables".to_owned(), tables.clone().into());
    }
    let path = format!("/api/endpoints/query/{}", encoded(name));
    (path, operation)
}

/// The schema of the field `result`.
fn result(answer: &AnswerSchema, adhoc: bool) -> Value {
    let some = json!({"type": "array", "items": reference("schemas", "Row")});
    match answer {
        AnswerSchema::Any => json!({}),
        AnswerSchema::SomeRows => some,
        AnswerSchema::Rows(row) => {
            let rows = json!({"type": "array", "items": row});
            // An ad-hoc query has columns of its own.
            if adhoc { json!({"anyOf": [rows, some]}) } else { rows }
        }
    }
}

fn parameter(parameter: &Parameter, pinned: bool) -> Value {
    let mut description = parameter.description.clone();
    if pinned {
        description = format!("Fixed by the access token. {description}");
    }
    let mut shown = json!({
        "name": parameter.name,
        "in": "query",
        "required": parameter.required && parameter.default.is_none() && !pinned,
        "description": description.trim_end(),
        "schema": schema(parameter),
    });
    if let (true, Some(fields)) = (pinned, shown.as_object_mut()) {
        fields.insert("x-tidegate-pinned".to_owned(), true.into());
    }
    shown
}

fn schema(parameter: &Parameter) -> Value {
    let mut schema = match parameter.kind {
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Int64 => json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX}),
        Kind::Float64 => json!({"type": "number", "format": "double"}),
        Kind::Timestamp => moment(parameter.required),
        Kind::Text | Kind::Bytes | Kind::Json => json!({"type": "string"}),
    };
    if let Some(fields) = schema.as_object_mut() {
        let is_text = matches!(parameter.kind, Kind::Text | Kind::Bytes | Kind::Json);
        if is_text && parameter.required {
            fields.insert("minLength".to_owned(), 1.into());
        }
        if let Some(most) = parameter.max_length.filter(|_| is_text) {
            fields.insert("maxLength".to_owned(), most.into());
        }
        match parameter.format {
            Some(Format::Regex) => drop(fields.insert("format".to_owned(), "regex".into())),
            Some(Format::Timestamp) => {
                fields.extend(moment(parameter.required).as_object().cloned().unwrap_or_default());
            }
            None => {}
        }
        if !parameter.allowed.is_empty() {
            let allowed = parameter.allowed.iter().map(|text| typed(parameter.kind, text));
            fields.insert("enum".to_owned(), allowed.collect());
        }
        if let Some(default) = &parameter.default {
            fields.insert("default".to_owned(), typed(parameter.kind, default));
        }
    }
    schema
}

/// The schema of a time, which may be one relative to the request. A time that is not required may be an empty text, which means none.
fn moment(required: bool) -> Value {
    let mut forms = vec![json!({"format": "date-time"}), json!({"pattern": "^now(-[0-9]+[smhdw])?$"})];
    if !required {
        forms.push(json!({"const": ""}));
    }
    json!({"type": "string", "anyOf": forms})
}

/// The JSON value that a parameter's text is parsed to.
fn typed(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Boolean | Kind::Int64 | Kind::Float64 => {
            serde_json::from_str(text).ok().filter(|value: &Value| !value.is_string()).unwrap_or_else(|| text.into())
        }
        _ => text.into(),
    }
}

/// A name as one percent-encoded segment of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_and_differ() {
        let mut ids = Ids::default();
        assert_eq!(ids.of("logs.all"), "query_logs_all");
        assert_eq!(ids.of("logs all"), "query_logs_all_2");
        assert_eq!(ids.of("größe"), "query_gr__e");
        assert_eq!(encoded("a b/größe"), "a%20b%2Fgr%C3%B6%C3%9Fe");
    }

    #[test]
    fn a_parameter_has_the_schema_of_its_kind() {
        let number = Parameter {
            name: "n".to_owned(),
            kind: Kind::Int64,
            allowed: vec!["1".to_owned(), "60".to_owned()],
            default: Some("60".to_owned()),
            required: true,
            ..Parameter::default()
        };
        let shown = json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX, "enum": [1, 60], "default": 60});
        assert_eq!(schema(&number), shown);
        assert_eq!(parameter(&number, false).get("required"), Some(&json!(false)), "it has a default");
        let text = Parameter { name: "t".to_owned(), required: true, ..Parameter::default() };
        assert_eq!(schema(&text), json!({"type": "string", "minLength": 1}));
        assert_eq!(parameter(&text, false).get("required"), Some(&json!(true)));
        assert_eq!(parameter(&text, true).get("required"), Some(&json!(false)));
    }
}
