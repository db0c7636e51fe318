//! The parameters of a query request over HTTP: query string, JSON body, form body.

use axum::body::Body;
use axum::http::{HeaderMap, Method, Uri, header};
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure, json_fault};
use tidegate_service::answer::AccountMemory;
use tidegate_service::execution::{ParameterCollector, SentParameters};

use crate::request_body::RequestBody;

/// The longest body of a query request, in bytes.
const MAX_BODY: usize = 512 << 10;
/// Bodies of at least so many bytes are not parsed on the thread of their connection.
const LARGE: usize = 64 << 10;

/// A query request whose body has arrived and is not parsed yet.
#[derive(Debug)]
pub(crate) struct QueryBody {
    method: Method,
    uri: Uri,
    /// Whether the body is a form; else it is JSON.
    form: bool,
    body: RequestBody,
}

impl QueryBody {
    /// Waits for the body of a request. What has arrived counts in `memory` until this is dropped.
    ///
    /// # Errors
    /// Those of [`RequestBody::read`].
    pub(crate) async fn wait(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Body,
        memory: &AccountMemory,
    ) -> Result<Self, Failure> {
        let body = RequestBody::read(headers, body, MAX_BODY, memory, "the body").await?;
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let form = kind.starts_with("application/x-www-form-urlencoded");
        Ok(Self { method: method.clone(), uri: uri.clone(), form, body })
    }

    /// Whether parsing it may take too long for the thread that serves its connection.
    pub(crate) fn is_large(&self) -> bool {
        self.body.bytes.len() >= LARGE
    }

    /// Parses the parameters. Some clients send a GET with a `Content-Type` and no body, so an empty body is not an
    /// error, whatever the header says.
    ///
    /// # Errors
    /// [`Code::InvalidBody`]; [`Code::TooLarge`] for more parameters than [`tidegate_model::MOST_PARAMETERS`];
    /// [`Code::InvalidParameter`] for one that is given twice with different values.
    pub(crate) fn read(&self) -> Result<SentParameters, Failure> {
        Ok(self.read_without(|_| None::<()>)?.0)
    }

    /// As [`Self::read`], with the object `as` of a JSON body beside the parameters. A parameter is no object, so one of this
    /// name is told from it.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub(crate) fn read_with_tenant(&self) -> Result<(SentParameters, Option<Map<String, Value>>), Failure> {
        self.read_without(|body| match body.get("as") {
            Some(Value::Object(tenant)) => {
                let tenant = tenant.clone();
                body.shift_remove("as");
                Some(tenant)
            }
            _ => None,
        })
    }

    /// The parameters, and what is taken out of a JSON body before.
    fn read_without<T>(
        &self,
        take: impl FnOnce(&mut Map<String, Value>) -> Option<T>,
    ) -> Result<(SentParameters, Option<T>), Failure> {
        let (mut pairs, mut taken) = (ParameterCollector::default(), None);
        pairs.extend(form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes()).into_owned())?;
        if self.body.bytes.is_empty() {
        } else if self.form {
            pairs.extend(form_urlencoded::parse(&self.body.bytes).into_owned())?;
        } else {
            let mut object = json_object(&self.body.bytes)?;
            taken = take(&mut object);
            // A GET may carry its ad-hoc query in a body, and nothing else.
            let keep = |name: &str| self.method != Method::GET || matches!(name, "sql" | "lql");
            object.retain(|name, _| keep(name));
            pairs.extend_object(object)?;
        }
        Ok((pairs.finish(), taken))
    }
}

/// The JSON object of a body.
fn json_object(body: &[u8]) -> Result<Map<String, Value>, Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| bad(format!("the body is not valid JSON: {}", json_fault(&error))))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(bad("the body must be a JSON object of parameters".to_owned())),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::Duration;

    use tidegate_model::MOST_PARAMETERS;
    use tidegate_service::Account;
    use tidegate_service::answer::TransferMemory;
    use tidegate_service::execution::AdhocQuery;

    use super::*;

    async fn read(method: Method, uri: &str, kind: &str, body: &str) -> Result<SentParameters, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        let memory = TransferMemory::new(2 * MAX_BODY, Duration::ZERO).of(Account::Token([1; 32]));
        let body = Body::from(body.to_owned());
        QueryBody::wait(&method, &uri.parse().unwrap(), &headers, body, &memory).await?.read()
    }

    #[tokio::test]
    async fn parameters_come_from_the_query_string_and_the_body() {
        let json = "application/json";
        let sent = read(Method::GET, "/x?project=a+b%2Bc&iso_timestamp_end=", json, "").await.unwrap();
        assert_eq!(sent.values, [("project".into(), "a b+c".into()), ("iso_timestamp_end".into(), String::new())]);
        let sent = read(Method::POST, "/x?a=1", json, r#"{"b": 2, "c": null, "sql": "select 1"}"#).await.unwrap();
        assert_eq!(sent.values.len(), 2);
        assert_eq!(sent.adhoc, Some(AdhocQuery::Sql("select 1".into())));
        let sent = read(Method::GET, "/x", json, r#"{"b": 2, "lql": "f:edge_logs"}"#).await.unwrap();
        assert_eq!((sent.values.len(), sent.adhoc), (0, Some(AdhocQuery::Lql("f:edge_logs".into()))));
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
        let records = read(Method::POST, "/x", json, r#"{"a": [1], "b": {"c": "d"}, "e": 1}"#).await.unwrap();
        assert_eq!(records.records, ["a", "b"]);
        assert!(records.values.contains(&("b".to_owned(), r#"{"c":"d"}"#.to_owned())), "{records:?}");
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
            // A name that is repeated costs as much work as many names.
            ("/x", form, &"a=1&".repeat(MOST_PARAMETERS + 1)),
        ] {
            let failure = read(Method::POST, uri, kind, body).await.unwrap_err();
            assert_eq!(failure.code, Code::TooLarge);
            assert!(failure.message.contains("more than 500 parameters"), "{failure}");
        }
    }
}
