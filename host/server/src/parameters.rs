//! The parameters of a query request: query string, JSON body, form body.
//!
//! All of them are text to the endpoint. What the endpoint does not declare is ignored by it, so
//! nothing here is refused for its name; `sql` and `lql` carry ad-hoc queries.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Uri, header};
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure};

/// The longest body of a query request, in bytes.
const MAX_BODY: usize = 512 << 10;

/// A query request's parameters.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Sent {
    /// Names and texts; no name twice.
    pub(crate) values: Vec<(String, String)>,
    /// An ad-hoc query.
    pub(crate) adhoc: Option<Adhoc>,
}

/// An ad-hoc query, in its language.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Adhoc {
    Sql(String),
    Lql(String),
}

impl Sent {
    /// Reads the parameters of a request. A GET has a `Content-Type` and no body with some clients,
    /// so an empty body is no error whatever the header says.
    pub(crate) async fn read(method: &Method, uri: &Uri, headers: &HeaderMap, body: Body) -> Result<Self, Failure> {
        let mut pairs: Vec<(String, String)> =
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let too_large = |_| Failure::new(Code::TooLarge, format!("the body is larger than {MAX_BODY} bytes"));
        let body = to_bytes(body, MAX_BODY).await.map_err(too_large)?;
        if !body.is_empty() {
            let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if kind.starts_with("application/x-www-form-urlencoded") {
                pairs.extend(form_urlencoded::parse(&body).into_owned());
            } else {
                let object = json_object(&body)?;
                // A GET may carry its ad-hoc query in a body, and nothing else.
                let keep = |name: &str| *method != Method::GET || matches!(name, "sql" | "lql");
                pairs.extend(object.into_iter().filter(|(name, _)| keep(name)));
            }
        }
        Self::of(pairs)
    }

    /// The parameters of a JSON object, as in the body of a POST.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] for one that is no scalar.
    pub(crate) fn of_object(object: Map<String, Value>) -> Result<Self, Failure> {
        Self::of(texts(object)?)
    }

    fn of(pairs: Vec<(String, String)>) -> Result<Self, Failure> {
        let mut sent = Self::default();
        for (name, text) in pairs {
            match sent.values.iter().find(|(known, _)| *known == name) {
                Some((_, known)) if *known == text => {}
                Some(_) => {
                    let message = format!("parameter '{name}' is given twice with different values");
                    return Err(Failure::new(Code::InvalidParameter, message).about(name));
                }
                None => sent.values.push((name, text)),
            }
        }
        let mut take = |name: &str| {
            let at = sent.values.iter().position(|(known, _)| known == name)?;
            Some(sent.values.swap_remove(at).1)
        };
        // An empty `sql` asks for the saved query, and `lql` counts only where there is no `sql`.
        let given = |text: &String| !text.trim().is_empty();
        sent.adhoc = match (take("sql"), take("lql")) {
            (Some(sql), _) => Some(sql).filter(given).map(Adhoc::Sql),
            (None, lql) => lql.filter(given).map(Adhoc::Lql),
        };
        Ok(sent)
    }
}

/// The parameters of a JSON object.
fn json_object(body: &[u8]) -> Result<Vec<(String, String)>, Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    let value: Value =
        serde_json::from_slice(body).map_err(|error| bad(format!("the body is not valid JSON: {error}")))?;
    let Value::Object(object) = value else {
        return Err(bad("the body must be a JSON object of parameters".to_owned()));
    };
    texts(object)
}

/// The values of an object of scalars as texts; null is not sent.
fn texts(object: Map<String, Value>) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs = Vec::new();
    for (name, value) in object {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => {
                let message = format!("parameter '{name}' must be a text, a number or a boolean");
                return Err(Failure::new(Code::InvalidBody, message).about(name));
            }
        };
        pairs.push((name, text));
    }
    Ok(pairs)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    async fn read(method: Method, uri: &str, kind: &str, body: &str) -> Result<Sent, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        Sent::read(&method, &uri.parse().unwrap(), &headers, Body::from(body.to_owned())).await
    }

    #[tokio::test]
    async fn parameters_come_from_the_query_string_and_the_body() {
        let json = "application/json";
        let sent = read(Method::GET, "/x?project=a+b%2Bc&iso_timestamp_end=", json, "").await.unwrap();
        assert_eq!(sent.values, [("project".into(), "a b+c".into()), ("iso_timestamp_end".into(), String::new())]);
        let sent = read(Method::POST, "/x?a=1", json, r#"{"b": 2, "c": null, "sql": "select 1"}"#).await.unwrap();
        assert_eq!(sent.values.len(), 2);
        assert_eq!(sent.adhoc, Some(Adhoc::Sql("select 1".into())));
        let sent = read(Method::GET, "/x", json, r#"{"b": 2, "lql": "f:edge_logs"}"#).await.unwrap();
        assert_eq!((sent.values.len(), sent.adhoc), (0, Some(Adhoc::Lql("f:edge_logs".into()))));
        let sent = read(Method::GET, "/x?sql=&lql=error", json, "").await.unwrap();
        assert_eq!((sent.values.len(), sent.adhoc), (0, None));
        let sent = read(Method::POST, "/x", "application/x-www-form-urlencoded", "a=1&b=2").await.unwrap();
        assert_eq!(sent.values.len(), 2);
    }

    #[tokio::test]
    async fn contradictions_and_bad_bodies_are_refused_by_name() {
        let json = "application/json";
        assert!(read(Method::GET, "/x?a=1&a=1", json, "").await.is_ok());
        assert!(read(Method::GET, "/x?a=1&a=2", json, "").await.unwrap_err().message.contains("'a'"));
        assert_eq!(read(Method::POST, "/x", json, "{").await.unwrap_err().code, Code::InvalidBody);
        assert!(read(Method::POST, "/x", json, r#"{"a": [1]}"#).await.unwrap_err().message.contains("'a'"));
    }
}
