//! The doors, one file or a few per protocol. How one is added: `docs/contributing/ingest-formats.md`.
//!
//! - `json_door`: `/api/logs`; `otlp`, `otlp_grpc` with `otlp_json`, `otlp_protobuf` and `otlp_record`: OpenTelemetry;
//!   `otlp_signal`: what its SDKs send beside logs;
//! - `logflare`, `logplex`: the paths of Logflare;
//! - `loki` with `loki_entry`; `bulk` with `bulk_action` and `bulk_answer`: Elasticsearch; `splunk`; `datadog`; `firehose` with `cloudwatch`; `axiom`;
//!   `logtail` with `msgpack`: Better Stack; `journal` with `journal_format`: systemd;
//! - `json`, `lines`: cutting a body; `documents`: what JSON is cut into; `fields`: message and time where a protocol has none of its own.

mod axiom;
mod bulk;
mod bulk_action;
pub(crate) mod bulk_answer;
mod cloudwatch;
mod datadog;
mod documents;
mod fields;
mod firehose;
mod journal;
mod journal_format;
mod json;
mod json_door;
mod lines;
mod logflare;
mod logplex;
mod logtail;
mod loki;
mod loki_entry;
mod msgpack;
mod otlp;
mod otlp_grpc;
mod otlp_json;
mod otlp_protobuf;
mod otlp_record;
pub(crate) mod otlp_signal;
mod splunk;

use crate::door::{Door, Methods, Question};

/// All doors.
pub(crate) static DOORS: &[&dyn Door] = &[
    &json_door::Logs,
    &otlp::Otlp,
    &otlp_grpc::OtlpGrpc,
    &logflare::JSON,
    &logflare::VECTOR,
    &logflare::ELIXIR,
    &logflare::CLOUDFLARE,
    &logflare::VERCEL,
    &logflare::NETLIFY,
    &logplex::Logplex,
    &loki::Loki,
    &bulk::Bulk,
    &splunk::Splunk,
    &datadog::Datadog,
    &firehose::Firehose,
    &axiom::Axiom,
    &logtail::Logtail,
    &journal::Journal,
];

/// What senders ask before they send: the methods, the beginning and the rest of the paths, and what answers.
pub(crate) static QUESTIONS: &[(Methods, &str, &[&str], Question)] = &[
    (Methods::Any, "", bulk_answer::QUESTIONS, bulk_answer::question),
    (Methods::Any, bulk_answer::PREFIX, bulk_answer::QUESTIONS, bulk_answer::question),
    (Methods::Get, bulk_answer::PREFIX, &["", "/"], bulk_answer::question),
    (Methods::Get, "", &["/logs/vercel", "/api/logs/vercel"], logflare::verified),
    (Methods::Get, "/services/collector/health", &["", "/1.0"], splunk::health),
];

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::door::no_source;
    use tidegate_service::Options;
    use tidegate_service::settings::SECTIONS;

    #[test]
    fn every_door_has_the_setting_that_it_tells_of() {
        let section = SECTIONS.iter().find(|section| section.name() == "doors").unwrap();
        for door in DOORS.iter().map(|door| door.profile()) {
            let (setting, mut options) = (door.source_setting(), Options::new("data"));
            section.set(&mut options, &format!("{setting}_source"), "there").unwrap();
            assert_eq!(options.doors.source(setting), "there");
            let told = no_source(door).message;
            assert!(told.contains(&format!("{setting}_source in the section [doors]")), "{told}");
        }
    }
}
