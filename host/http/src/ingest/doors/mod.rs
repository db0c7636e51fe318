//! The doors: the protocols in which senders of other services send, one file or a few per protocol. How one is added:
//! `docs/contributing/ingest-formats.md`.
//!
//! - `logflare`, `logplex`: the paths of Logflare;
//! - `loki` with `loki_entry`; `bulk` with `bulk_action` and `bulk_answer`: Elasticsearch; `splunk`; `datadog`; `firehose` with `cloudwatch`; `axiom`;
//!   `logtail` with `msgpack`: Better Stack; `journal` with `journal_format`: systemd;
//! - `documents`, `lines`: cutting a body; `fields`: message and time where a protocol has none of its own.

mod axiom;
mod bulk;
mod bulk_action;
pub(super) mod bulk_answer;
mod cloudwatch;
mod datadog;
mod documents;
mod fields;
mod firehose;
mod journal;
mod journal_format;
mod lines;
mod logflare;
mod logplex;
mod logtail;
mod loki;
mod loki_entry;
mod msgpack;
mod splunk;

use std::sync::Arc;

use axum::Router;
use axum::routing::{any, get};

use super::door::Door;
use crate::app::App;

/// All doors of this folder.
pub(super) static DOORS: &[&dyn Door] = &[
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

/// Routes that take no events: what senders ask before they send.
pub(super) fn questions(mut router: Router<Arc<App>>) -> Router<Arc<App>> {
    for path in bulk_answer::QUESTIONS {
        router = router.route(path, any(bulk_answer::question));
        router = router.route(&format!("{}{path}", bulk_answer::PREFIX), any(bulk_answer::question));
    }
    router
        .route(bulk_answer::PREFIX, get(bulk_answer::question))
        .route(&format!("{}/", bulk_answer::PREFIX), get(bulk_answer::question))
        .route("/logs/vercel", get(logflare::verified))
        .route("/api/logs/vercel", get(logflare::verified))
        .route("/services/collector/health", get(splunk::health))
        .route("/services/collector/health/1.0", get(splunk::health))
}
