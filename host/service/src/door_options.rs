//! The options of the doors: the ways in which events come in.

/// The source for events of requests that name none, per door. An empty name is none: such requests are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoorOptions {
    /// `/api/logs`, `/logs`, `/api/events`.
    pub logs_source: String,
    /// `/v1/logs`.
    pub otlp_source: String,
    /// `/logs/json`.
    pub json_source: String,
    /// `/logs/vector`.
    pub vector_source: String,
    /// `/logs/logplex`.
    pub logplex_source: String,
    /// `/logs/elixir/logger`.
    pub elixir_source: String,
    /// `/logs/cloudflare`.
    pub cloudflare_source: String,
    /// `/logs/vercel`.
    pub vercel_source: String,
    /// The text that Vercel expects in the header `x-vercel-verify` of the answers; empty sends no such header.
    pub vercel_verify: String,
    /// `/logs/netlify`.
    pub netlify_source: String,
    /// `/loki/api/v1/push`.
    pub loki_source: String,
    /// `/_bulk`. It also takes events whose index has no source of its name.
    pub elasticsearch_source: String,
    /// `/services/collector`.
    pub splunk_source: String,
    /// `/api/v2/logs`.
    pub datadog_source: String,
    /// `/logs/firehose`.
    pub firehose_source: String,
    /// `/v1/datasets/NAME/ingest`. It also takes events of datasets that are no source.
    pub axiom_source: String,
    /// `POST /`, of Better Stack's libraries.
    pub logtail_source: String,
    /// `/upload`, of systemd-journal-upload.
    pub journal_source: String,
}
