//! The doors of Logflare for JSON: `/logs/json`, `/logs/vector`, `/logs/elixir/logger`,
//! `/logs/cloudflare`, `/logs/vercel` and `/logs/netlify`. The fields of a record become those of `metadata`, as they do
//! there.

use super::fields::{Fields, as_text, nested, set_time};
use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile, content_type, is_by_line, plain_if};
use crate::logged::logged;
use crate::service::DoorService;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;
use tidegate_model::Failure;
use tidegate_service::door_options::DoorOptions;

use super::documents::{Documents, Read};
use crate::body::Encoding;
use crate::events::Events;

/// A door for records in JSON.
#[derive(Debug)]
pub(super) struct Records {
    profile: Profile,
    /// The fields with the time that this sender has, in the order in which they are tried.
    times: &'static [&'static str],
    /// The places of what makes up the message of a record that has none.
    summary: &'static [&'static str],
    /// A record that the sender sends to see whether the door is there. It is not stored.
    probe: Option<(&'static str, &'static str)>,
    /// The header of a request by which the sender looks whether the door is there. Nothing of it is stored.
    probe_header: Option<&'static str>,
    /// Adds what the sender expects in every answer.
    finish: fn(&DoorOptions, Answer) -> Answer,
}

/// A door at these paths, whose body may name its source.
const fn records(name: &'static str, paths: &'static [&'static str]) -> Records {
    Records { profile: Profile { name, paths, body_names_sources: true, ..Profile::USUAL }, ..PLAIN }
}

const PLAIN: Records = Records {
    profile: Profile::USUAL,
    times: &[],
    summary: &[],
    probe: None,
    probe_header: None,
    finish: |_, answer| answer,
};

pub(super) static JSON: Records = records("json", &["/logs/json", "/api/logs/json"]);

pub(super) static VECTOR: Records = records("vector", &["/logs/vector", "/api/logs/vector"]);

pub(super) static ELIXIR: Records = records("elixir", &["/logs/elixir/logger", "/api/logs/elixir/logger"]);

pub(super) static CLOUDFLARE: Records = Records {
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
    ..records("cloudflare", &["/logs/cloudflare", "/api/logs/cloudflare"])
};

pub(super) static VERCEL: Records = Records {
    summary: &["/source", "/proxy/method", "/proxy/statusCode", "/proxy/host", "/proxy/path", "/proxy/clientIp"],
    probe_header: Some("x-vercel-verify"),
    finish: verify,
    ..records("vercel", &["/logs/vercel", "/api/logs/vercel"])
};

pub(super) static NETLIFY: Records = Records {
    summary: &["/method", "/status_code", "/url", "/client_ip", "/user_agent"],
    ..records("netlify", &["/logs/netlify", "/api/logs/netlify"])
};

impl Records {
    fn event(&self, mut fields: Fields) -> Read {
        if let Some((name, value)) = self.probe
            && fields.len() == 1
            && fields.get(name).is_some_and(|own| own == value)
        {
            return None;
        }
        set_time(&mut fields, self.times);
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
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        if kind == "application/bert" {
            let message = "BERT is not read here; have the logger send JSON (content-type: application/json), or send \
                           its events with OpenTelemetry to /v1/logs";
            return plain_if(false, message);
        }
        // Cloudflare sends JSON as text/plain, others as nothing or as a form.
        let is_read = kind.is_empty()
            || kind.contains("json")
            || kind.starts_with("text/")
            || ["application/octet-stream", "application/x-www-form-urlencoded", "application/gzip"]
                .contains(&kind.as_str());
        plain_if(is_read, format!("{kind} is not read here; send events as application/json or application/x-ndjson"))
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        // Vercel asks with nothing, with an empty object, or with the header.
        if let Some(header) = self.probe_header
            && (head.headers.contains_key(header) || matches!(body.trim_ascii(), b"" | b"{}" | b"[]"))
        {
            return Ok(());
        }
        let event = |fields| self.event(fields);
        Documents { event: &event, has_envelope: true, by_line: is_by_line(head) }.read(body, events)
    }

    fn finish(&self, options: &DoorOptions, answer: Answer) -> Answer {
        (self.finish)(options, answer)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        Answer::json(StatusCode::OK, &logged(delivered.own()))
    }
}

/// `GET /logs/vercel`, which Vercel may ask before it sends.
pub(super) fn verified(service: &dyn DoorService, _: &Parts) -> Answer {
    verify(&service.options().doors, Answer::of(StatusCode::OK))
}

/// Adds the header by which Vercel knows that the address belongs to the one who entered it.
fn verify(options: &DoorOptions, answer: Answer) -> Answer {
    if options.vercel_verify.is_empty() {
        return answer;
    }
    answer.header("x-vercel-verify", options.vercel_verify.as_str())
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
