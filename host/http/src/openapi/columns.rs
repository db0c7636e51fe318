//! The schema of an endpoint's rows: the columns of its saved query as JSON schema.

use serde_json::{Map, Value, json};
use tidegate_sql::Type;

/// The most parts of a row that are described. The fields of records count as parts too.
const MOST_PARTS: usize = 500;

/// The schema of rows with these columns.
pub(super) fn row_schema(columns: &[(String, Type)]) -> Value {
    let mut parts = MOST_PARTS;
    let columns: Map<String, Value> = columns.iter().map(|(name, ty)| (name.clone(), schema(ty, &mut parts))).collect();
    json!({"type": "object", "properties": columns, "required": columns.keys().collect::<Vec<_>>()})
}

/// The JSON schema of the values of a type. Each may be null.
fn schema(ty: &Type, parts: &mut usize) -> Value {
    let Some(left) = parts.checked_sub(1) else { return json!({}) };
    *parts = left;
    let mut object = |fields: &[tidegate_sql::Field]| {
        let shown = fields.iter().filter(|field| !field.is_hidden());
        let properties: Map<String, Value> =
            shown.map(|field| (field.name.clone(), schema(&field.ty, parts))).collect();
        json!({"type": ["object", "null"], "properties": properties})
    };
    match ty {
        // A path that no log has had so far may get a value of any type later.
        Type::Null | Type::Json => json!({}),
        Type::Bool => json!({"type": ["boolean", "null"]}),
        Type::Int64 => json!({"type": ["integer", "null"], "format": "int64"}),
        Type::Float64 => {
            json!({"type": ["number", "string", "null"], "description": "A number; NaN, Infinity and -Infinity are texts."})
        }
        Type::Numeric | Type::BigNumeric => {
            json!({"type": ["number", "null"], "description": "A decimal number, with all of its digits."})
        }
        Type::String => json!({"type": ["string", "null"]}),
        Type::Bytes => json!({"type": ["string", "null"], "contentEncoding": "base64"}),
        Type::Timestamp => {
            json!({"type": ["integer", "null"], "format": "int64", "description": "Microseconds since 1970-01-01, UTC."})
        }
        Type::Datetime => json!({"type": ["string", "null"], "description": "Date and time without a zone."}),
        Type::Date => json!({"type": ["string", "null"], "format": "date"}),
        Type::Time => json!({"type": ["string", "null"], "description": "Time of day."}),
        Type::Interval => json!({"type": ["string", "null"], "description": "An interval of time."}),
        Type::Range(of) => {
            json!({"type": ["string", "null"], "description": format!("A {of} and the next one after the range, as '[start, end)'.")})
        }
        Type::Array(item) => json!({"type": ["array", "null"], "items": schema(item, parts)}),
        Type::Struct { fields, open: _ } => object(fields),
        Type::Record(fields) => json!({"type": ["array", "null"], "items": object(fields), "maxItems": 1}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_bounded_whatever_the_type_is() {
        let mut ty = Type::String;
        for _ in 0..12 {
            let field = |name: &str| tidegate_sql::Field { name: name.to_owned(), ty: ty.clone() };
            ty = Type::Record([field("a"), field("b"), field("c"), field("_present")].into());
        }
        let text = schema(&ty, &mut 500).to_string();
        assert!(text.len() < 60_000 && !text.contains("_present"), "{}", text.len());
    }
}
