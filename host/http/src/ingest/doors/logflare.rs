//! The doors of Logflare for JSON: `/logs/json`, `/logs/vector`, `/logs/elixir/logger`,
//! `/logs/cloudflare`, `/logs/vercel` and `/logs/netlify`. The fields of a record become those of `metadata`, as they do
//! there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;

use super::super::body::Encoding;
use super::super::door::{Delivered, Door, content_type};
use super::super::events::Events;
use super::super::logged::{is_by_line, logged};
use super::documents::{Documents, Read};
use super::fields::{Fields, as_text, nested};
use crate::app::App;

/// A door for records in JSON.
#[derive(Debug)]
pub(super) struct Records {
    name: &'static str,
    paths: &'static [&'static str],
    default_source: fn(&DoorOptions) -> &str,
    /// The fields with the time that this sender has, in the order in which they are tried.
    times: &'static [&'static str],
    /// The places of what makes up the message of a record that has none.
    summary: &'static [&'static str],
    /// A record that the sender sends to see whether the door is there. It is not stored.
    probe: Option<(&'static str, &'static str)>,
    /// The header of a request by which the sender looks whether the door is there. Nothing of it is stored.
    probe_header: Option<&'static str>,
    /// Adds what the sender expects in every answer.
    finish: fn(&DoorOptions, &mut Response),
}

const RECORDS: Records = Records {
    name: "json",
    paths: &["/logs/json", "/api/logs/json"],
    default_source: |options| &options.json_source,
    times: &[],
    summary: &[],
    probe: None,
    probe_header: None,
    finish: |_, _| {},
};

pub(super) static JSON: Records = RECORDS;

pub(super) static VECTOR: Records = Records {
    name: "vector",
    paths: &["/logs/vector", "/api/logs/vector"],
    default_source: |options| &options.vector_source,
    ..RECORDS
};

pub(super) static ELIXIR: Records = Records {
    name: "elixir",
    paths: &["/logs/elixir/logger", "/api/logs/elixir/logger"],
    default_source: |options| &options.elixir_source,
    ..RECORDS
};

pub(super) static CLOUDFLARE: Records = Records {
    name: "cloudflare",
    paths: &["/logs/cloudflare", "/api/logs/cloudflare"],
    default_source: |options| &options.cloudflare_source,
    times: &[
        "EdgeStartTimestamp",
        "EventTimestampMs",
        "EventTimestamp",
        "Datetime",
        "DateTime",
        "Timestamp",
        "CreatedAt",
    ],
    summary: &[
        "/ClientRequestMethod",
        "/EdgeResponseStatus",
        "/ClientIP",
        "/RayID",
        "/ClientRequestURI",
        "/ClientRequestUserAgent",
    ],
    probe: Some(("content", "tests")),
    ..RECORDS
};

pub(super) static VERCEL: Records = Records {
    name: "vercel",
    paths: &["/logs/vercel", "/api/logs/vercel"],
    default_source: |options| &options.vercel_source,
    summary: &["/source", "/proxy/method", "/proxy/statusCode", "/proxy/host", "/proxy/path", "/proxy/clientIp"],
    probe_header: Some("x-vercel-verify"),
    finish: verify,
    ..RECORDS
};

pub(super) static NETLIFY: Records = Records {
    name: "netlify",
    paths: &["/logs/netlify", "/api/logs/netlify"],
    default_source: |options| &options.netlify_source,
    summary: &["/method", "/status_code", "/url", "/client_ip", "/user_agent"],
    ..RECORDS
};

impl Records {
    fn event(&self, mut fields: Fields) -> Read {
        if let Some((name, value)) = self.probe
            && fields.len() == 1
            && fields.get(name).is_some_and(|own| own == value)
        {
            return None;
        }
        let time = self.times.iter().find_map(|name| fields.get(*name).filter(|time| !time.is_null()));
        if let Some(time) = time.cloned()
            && !fields.contains_key("timestamp")
        {
            fields.insert("timestamp".to_owned(), time);
        }
        Some(Ok(nested(fields, |fields| self.summary(fields).or_else(|| as_text(fields)))))
    }

    /// The message of a record that has none: what its sender shows of it in a line.
    fn summary(&self, fields: &Fields) -> Option<String> {
        let parts = self.summary.iter().filter_map(|place| {
            let (first, rest) =
                place.trim_start_matches('/').split_once('/').unwrap_or((place.trim_start_matches('/'), ""));
            let value = fields.get(first)?;
            match if rest.is_empty() { value } else { value.get(rest)? } {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            }
        });
        let parts: Vec<String> = parts.collect();
        (parts.len() > 1).then(|| parts.join(" | "))
    }
}

impl Door for Records {
    fn name(&self) -> &'static str {
        self.name
    }

    fn paths(&self) -> &'static [&'static str] {
        self.paths
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        (self.default_source)(options)
    }

    fn body_names_sources(&self) -> bool {
        true
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        if kind == "application/bert" {
            let message = "BERT is not read here; have the logger send JSON (content-type: application/json), or send \
                           its events with OpenTelemetry to /v1/logs";
            return Err(Failure::new(Code::UnsupportedMediaType, message).about("content-type"));
        }
        // Cloudflare sends JSON as text/plain, others as nothing or as a form.
        let is_text = kind.is_empty() || kind.contains("json") || kind.starts_with("text/");
        if is_text
            || ["application/octet-stream", "application/x-www-form-urlencoded", "application/gzip"]
                .contains(&kind.as_str())
        {
            return Ok(Encoding::Identity);
        }
        let message = format!("{kind} is not read here; send events as application/json or application/x-ndjson");
        Err(Failure::new(Code::UnsupportedMediaType, message).about("content-type"))
    }

    fn read(&self, head: &Parts, body: &Bytes, mut events: Events) -> Result<Events, Failure> {
        // Vercel asks with nothing, with an empty object, or with the header.
        if let Some(header) = self.probe_header
            && (head.headers.contains_key(header) || matches!(body.trim_ascii(), b"" | b"{}" | b"[]"))
        {
            return Ok(events);
        }
        let documents =
            Documents { event: &|fields| self.event(fields), has_envelope: true, by_line: is_by_line(head) };
        events.source = documents.read(body, &mut events.own)?;
        Ok(events)
    }

    fn finish(&self, options: &DoorOptions, response: &mut Response) {
        (self.finish)(options, response);
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        axum::Json(logged(delivered.own())).into_response()
    }
}

/// `GET /logs/vercel`, which Vercel may ask before it sends.
pub(crate) async fn verified(State(app): State<Arc<App>>) -> Response {
    let mut response = StatusCode::OK.into_response();
    verify(&app.service.options.doors, &mut response);
    response
}

/// Adds the header by which Vercel knows that the address belongs to the one who entered it.
fn verify(options: &DoorOptions, response: &mut Response) {
    if !options.vercel_verify.is_empty()
        && let Ok(value) = HeaderValue::from_str(&options.vercel_verify)
    {
        response.headers_mut().insert("x-vercel-verify", value);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(door: &Records, record: Value) -> Read {
        door.event(record.as_object().cloned().unwrap())
    }

    #[test]
    fn records_of_cloudflare_have_their_time_and_a_line() {
        let record = json!({
            "EdgeStartTimestamp": 1_763_633_702_123_456_789_i64, "ClientRequestMethod": "GET",
            "EdgeResponseStatus": 200, "ClientIP": "192.0.2.1", "RayID": "r", "ClientRequestURI": "/x",
        });
        let event = event(&CLOUDFLARE, record).unwrap().unwrap();
        assert_eq!(event["timestamp"], 1_763_633_702_123_456_789_i64);
        assert_eq!(event["event_message"], "GET | 200 | 192.0.2.1 | r | /x");
        assert_eq!(event["metadata"]["EdgeResponseStatus"], 200);
        assert_eq!(self::event(&CLOUDFLARE, json!({"content": "tests"})), None);
        assert!(self::event(&JSON, json!({"content": "tests"})).is_some());
    }

    #[test]
    fn records_of_vercel_have_their_message_or_a_line() {
        let request = json!({"source": "lambda", "timestamp": 1_763_633_702_000_i64, "proxy": {"method": "GET", "statusCode": 500, "host": "h", "path": "/"}});
        assert_eq!(event(&VERCEL, request).unwrap().unwrap()["event_message"], "lambda | GET | 500 | h | /");
        let line = event(&VERCEL, json!({"message": "m", "source": "build", "id": "7"})).unwrap().unwrap();
        assert_eq!(line, json!({"id": "7", "event_message": "m", "metadata": {"source": "build"}}));
    }
}
