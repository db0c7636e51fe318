//! The parameters of a query request: query string, JSON body, form body.
//!
//! All of them are text to the endpoint. What the endpoint does not declare is ignored by it, so
//! nothing here is refused for its name; `sql` and `lql` carry ad-hoc queries. How many there may be
//! is bounded, and every step takes time in proportion to the bytes that were sent.

use std::collections::hash_map::{Entry, HashMap};

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Uri, header};
use bytes::Bytes;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure, MOST_PARAMETERS};

/// The longest body of a query request, in bytes.
const MAX_BODY: usize = 512 << 10;
/// Bodies from so many bytes on are not read on the thread of their connection.
const LARGE: usize = 64 << 10;

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

/// A query request that has arrived and is not yet read.
#[derive(Debug)]
pub(crate) struct Arrived {
    method: Method,
    uri: Uri,
    /// Whether the body is a form; else it is JSON.
    form: bool,
    body: Bytes,
}

impl Arrived {
    /// Waits for the body of a request.
    ///
    /// # Errors
    /// [`Code::TooLarge`].
    pub(crate) async fn wait(method: &Method, uri: &Uri, headers: &HeaderMap, body: Body) -> Result<Self, Failure> {
        let too_large = |_| Failure::new(Code::TooLarge, format!("the body is larger than {MAX_BODY} bytes"));
        let body = to_bytes(body, MAX_BODY).await.map_err(too_large)?;
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let form = kind.starts_with("application/x-www-form-urlencoded");
        Ok(Self { method: method.clone(), uri: uri.clone(), form, body })
    }

    /// Whether reading it may take longer than a connection's thread should be kept from others.
    pub(crate) fn is_large(&self) -> bool {
        self.body.len() >= LARGE
    }

    /// Reads the parameters. A GET has a `Content-Type` and no body with some clients, so an empty body
    /// is no error whatever the header says.
    ///
    /// # Errors
    /// [`Code::InvalidBody`]; [`Code::TooLarge`] for more parameters than [`MOST_PARAMETERS`];
    /// [`Code::InvalidParameter`] for one that is given twice with different values.
    pub(crate) fn read(&self) -> Result<Sent, Failure> {
        let mut pairs = Pairs::default();
        pairs.extend(form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes()).into_owned())?;
        if self.body.is_empty() {
        } else if self.form {
            pairs.extend(form_urlencoded::parse(&self.body).into_owned())?;
        } else {
            let object = json_object(&self.body)?;
            // A GET may carry its ad-hoc query in a body, and nothing else.
            let keep = |name: &str| self.method != Method::GET || matches!(name, "sql" | "lql");
            pairs.extend(object.into_iter().filter(|(name, _)| keep(name)))?;
        }
        Ok(pairs.finish())
    }
}

impl Sent {
    /// The parameters of a JSON object, as in the body of a POST.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] for one that is no scalar; [`Code::TooLarge`] for too many.
    pub(crate) fn of_object(object: Map<String, Value>) -> Result<Self, Failure> {
        let mut pairs = Pairs::default();
        pairs.extend(texts(object)?)?;
        Ok(pairs.finish())
    }
}

/// Names and texts as they come in, each name once.
#[derive(Debug, Default)]
struct Pairs {
    values: Vec<(String, String)>,
    /// Where in `values` each name stands.
    places: HashMap<String, usize>,
    /// How many were sent, the repeated ones too.
    count: usize,
}

impl Pairs {
    fn extend(&mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Result<(), Failure> {
        for (name, text) in pairs {
            self.count += 1;
            if self.count > MOST_PARAMETERS {
                let message = format!("the request has more than {MOST_PARAMETERS} parameters; send fewer");
                return Err(Failure::new(Code::TooLarge, message));
            }
            match self.places.entry(name) {
                Entry::Vacant(vacant) => {
                    let name = vacant.key().clone();
                    vacant.insert(self.values.len());
                    self.values.push((name, text));
                }
                Entry::Occupied(known) => {
                    if self.values.get(*known.get()).is_some_and(|(_, before)| *before != text) {
                        let name = known.key();
                        let message = format!("parameter '{name}' is given twice with different values");
                        return Err(Failure::new(Code::InvalidParameter, message).about(name));
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Sent {
        let mut values = self.values;
        let mut take = |name: &str| {
            let at = values.iter().position(|(known, _)| known == name)?;
            Some(values.swap_remove(at).1)
        };
        // An empty `sql` asks for the saved query, and `lql` counts only where there is no `sql`.
        let given = |text: &String| !text.trim().is_empty();
        let adhoc = match (take("sql"), take("lql")) {
            (Some(sql), _) => Some(sql).filter(given).map(Adhoc::Sql),
            (None, lql) => lql.filter(given).map(Adhoc::Lql),
        };
        Sent { values, adhoc }
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
        Arrived::wait(&method, &uri.parse().unwrap(), &headers, Body::from(body.to_owned())).await?.read()
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

    #[tokio::test]
    async fn the_number_of_parameters_is_bounded_wherever_they_stand() {
        let form = "application/x-www-form-urlencoded";
        let names = |n: usize| (0..n).map(|i| format!("p{i}=1")).collect::<Vec<_>>().join("&");
        let most = names(MOST_PARAMETERS);
        assert_eq!(read(Method::POST, "/x", form, &most).await.unwrap().values.len(), MOST_PARAMETERS);
        assert!(read(Method::GET, &format!("/x?{most}"), form, "").await.is_ok());
        let many = names(MOST_PARAMETERS + 1);
        let object: Map<String, Value> = (0..=MOST_PARAMETERS).map(|i| (format!("p{i}"), Value::from(1))).collect();
        let json = Value::Object(object).to_string();
        for (uri, kind, body) in [
            ("/x", form, many.as_str()),
            ("/x?more=1", form, &most),
            (&format!("/x?{many}"), form, ""),
            ("/x", "application/json", &json),
            // One name that is repeated is as much work as many.
            ("/x", form, &"a=1&".repeat(MOST_PARAMETERS + 1)),
        ] {
            let failure = read(Method::POST, uri, kind, body).await.unwrap_err();
            assert_eq!(failure.code, Code::TooLarge);
            assert!(failure.message.contains("more than 500 parameters"), "{failure}");
        }
    }
}
