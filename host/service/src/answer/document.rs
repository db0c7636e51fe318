//! Encodes a JSON document that a component wrote: unchanged as JSON, or as rows in another format if it is an array.

use csv::{Terminator, WriterBuilder};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure};

use super::format::{Format, PARAMETER};
use super::options::{EncodingOptions, lost, too_large};
use super::redaction::redact_json_text;

/// Encodes a JSON document that is known to be valid. As JSON, it is the document within `{"result": ...}`. As NDJSON,
/// it must be an array and each element is a line. As CSV, it must be an array of objects, whose keys are the columns
/// in order of first appearance. The limit of rows applies to the elements of an array. The second value tells whether
/// elements were left out.
///
/// # Errors
/// The format cannot represent the document; the body exceeds the limit of bytes.
pub(super) fn encode(document: &str, options: EncodingOptions) -> Result<(Vec<u8>, bool), Failure> {
    let redacted = options.redact.then(|| redact_json_text(document));
    let document = redacted.as_deref().unwrap_or(document);
    let cut = cut(document, options.rows)?;
    let (document, truncated) = (cut.as_deref().unwrap_or(document), cut.is_some());
    let body = match options.format {
        Format::Json => format!("{{\"result\":{document}}}").into_bytes(),
        Format::NdJson => lines(rows(document, options.format)?)?,
        Format::Csv => table(rows(document, options.format)?)?,
        Format::Arrow => {
            return Err(refused("the endpoint answers a JSON document, which has no columns", options.format));
        }
    };
    if body.len() > options.bytes {
        return Err(too_large(options.bytes));
    }
    Ok((body, truncated))
}

/// The document cut to its first `rows` elements, if it is an array with more. The text of the elements is not changed.
fn cut(document: &str, rows: usize) -> Result<Option<String>, Failure> {
    if !document.trim_start().starts_with('[') {
        return Ok(None);
    }
    let elements: Vec<&RawValue> = serde_json::from_str(document).map_err(lost)?;
    if elements.len() <= rows {
        return Ok(None);
    }
    let kept: Vec<&str> = elements.into_iter().take(rows).map(RawValue::get).collect();
    Ok(Some(format!("[{}]", kept.join(","))))
}

fn rows(document: &str, format: Format) -> Result<Vec<Value>, Failure> {
    match serde_json::from_str(document) {
        Ok(Value::Array(rows)) => Ok(rows),
        Ok(_) => Err(refused("the endpoint answers a JSON document that is no array of rows", format)),
        Err(error) => Err(lost(error)),
    }
}

fn lines(rows: Vec<Value>) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut out, &row).map_err(lost)?;
        out.push(b'\n');
    }
    Ok(out)
}

fn table(rows: Vec<Value>) -> Result<Vec<u8>, Failure> {
    let objects = rows.into_iter().map(|row| match row {
        Value::Object(fields) => Ok(fields),
        _ => Err(refused("the endpoint answers an array of which not all are objects", Format::Csv)),
    });
    let objects: Vec<Map<String, Value>> = objects.collect::<Result<_, _>>()?;
    let mut columns: Map<String, Value> = Map::new();
    for key in objects.iter().flat_map(Map::keys) {
        columns.entry(key.as_str()).or_insert(Value::Null);
    }
    let mut csv = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    if !columns.is_empty() {
        csv.write_record(columns.keys()).map_err(lost)?;
    }
    for object in &objects {
        for column in columns.keys() {
            match object.get(column) {
                None | Some(Value::Null) => csv.write_field(""),
                Some(Value::String(text)) => csv.write_field(text),
                Some(value) => csv.write_field(value.to_string()),
            }
            .map_err(lost)?;
        }
        if !columns.is_empty() {
            csv.write_record(None::<&[u8]>).map_err(lost)?;
        }
    }
    csv.into_inner().map_err(lost)
}

fn refused(why: &str, format: Format) -> Failure {
    let message = format!("{why}, so there is no answer as {}; ask for json", format.name());
    Failure::new(Code::InvalidParameter, message).about(PARAMETER)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn encoded(document: &str, format: Format, redact: bool) -> Result<String, Failure> {
        let options = EncodingOptions { format, rows: 10, bytes: 1_000, redact };
        encode(document, options).map(|(body, _)| String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_document_of_rows_is_given_in_each_format_of_rows() {
        let document = r#"[{"a": 1.50, "b": "x,\"y"}, {"b": null, "c": ["192.0.2.1"]}]"#;
        assert_eq!(encoded(document, Format::Json, false).unwrap(), format!("{{\"result\":{document}}}"));
        assert_eq!(
            encoded(document, Format::NdJson, true).unwrap(),
            "{\"a\":1.5,\"b\":\"x,\\\"y\"}\n{\"b\":null,\"c\":[\"REDACTED\"]}\n"
        );
        assert_eq!(
            encoded(document, Format::Csv, true).unwrap(),
            "a,b,c\r\n1.5,\"x,\"\"y\",\r\n,,\"[\"\"REDACTED\"\"]\"\r\n"
        );
        assert_eq!(encoded("[]", Format::Csv, true).unwrap(), "");
        assert_eq!(encoded("[{}]", Format::Csv, true).unwrap(), "");
    }

    #[test]
    fn the_cap_on_rows_holds_for_an_array() {
        for (format, whole, cut) in [
            (Format::Json, "{\"result\":[1.50, [2,3]]}", "{\"result\":[1.50]}"),
            (Format::NdJson, "1.5\n[2,3]\n", "1.5\n"),
        ] {
            for (rows, expected) in [(2, whole), (1, cut)] {
                let options = EncodingOptions { format, rows, bytes: 1_000, redact: false };
                let (body, truncated) = encode("[1.50, [2,3]]", options).unwrap();
                assert_eq!((&*body, truncated), (expected.as_bytes(), rows == 1));
            }
        }
    }

    #[test]
    fn what_a_format_cannot_hold_is_refused() {
        for (document, format) in
            [("[]", Format::Arrow), ("5", Format::NdJson), ("{}", Format::Csv), ("[1]", Format::Csv)]
        {
            let failure = encoded(document, format, false).unwrap_err();
            assert_eq!(failure.code, Code::InvalidParameter, "{document}");
            assert!(failure.message.contains("ask for json"), "{failure}");
        }
        let long = format!("\"{}\"", "x".repeat(1_000));
        assert_eq!(encoded(&long, Format::Json, false).unwrap_err().code, Code::LimitExceeded);
    }
}
