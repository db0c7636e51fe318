//! `[doors]`: where events go whose requests name no source.

use tidegate_model::{Access, Setting};

use crate::door_options::DoorOptions;

/// A text that may be empty, if `is_good` holds for each of its characters.
macro_rules! text {
    ($name:literal, $what:expr, $how:literal, $is_good:expr, $field:ident) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Text {
                how: $how,
                get: |o: &DoorOptions| o.$field.clone(),
                set: |o, text| {
                    let good = text.chars().all($is_good);
                    if good {
                        o.$field = text.to_owned();
                    }
                    good
                },
            },
        }
    };
}

/// The name of the source of a door.
macro_rules! source {
    ($name:literal, $paths:literal, $field:ident) => {
        text!(
            $name,
            concat!("the source of events at ", $paths, " whose request names none; empty refuses them"),
            "the name of a source, or nothing",
            |character: char| !character.is_control(),
            $field
        )
    };
}

pub(super) const DOORS: &[Setting<DoorOptions>] = &[
    source!("logs_source", "/api/logs", logs_source),
    source!("otlp_source", "/v1/logs", otlp_source),
    source!("json_source", "/logs/json", json_source),
    source!("vector_source", "/logs/vector", vector_source),
    source!("logplex_source", "/logs/logplex", logplex_source),
    source!("elixir_source", "/logs/elixir/logger", elixir_source),
    source!("cloudflare_source", "/logs/cloudflare", cloudflare_source),
    source!("vercel_source", "/logs/vercel", vercel_source),
    text!(
        "vercel_verify",
        "the text that Vercel expects in the header x-vercel-verify; empty sends no such header",
        "visible ASCII characters, or nothing",
        |character: char| character.is_ascii_graphic(),
        vercel_verify
    ),
    source!("netlify_source", "/logs/netlify", netlify_source),
    source!("loki_source", "/loki/api/v1/push", loki_source),
    text!(
        "elasticsearch_source",
        "the source of events at /_bulk whose index is no source, or that name none; empty refuses them",
        "the name of a source, or nothing",
        |character: char| !character.is_control(),
        elasticsearch_source
    ),
    source!("splunk_source", "/services/collector", splunk_source),
    source!("datadog_source", "/api/v2/logs", datadog_source),
    source!("firehose_source", "/logs/firehose", firehose_source),
    source!("axiom_source", "/v1/datasets/NAME/ingest", axiom_source),
    source!("logtail_source", "/ (Better Stack)", logtail_source),
    source!("journal_source", "/upload (systemd-journal-upload)", journal_source),
];

/// The sources that the options name, each with the name of its setting.
pub(crate) fn named_sources(options: &DoorOptions) -> impl Iterator<Item = (&'static str, String)> {
    DOORS.iter().filter_map(|setting| match setting.access {
        Access::Text { get, .. } if setting.name.ends_with("_source") => {
            Some((setting.name, get(options))).filter(|(_, source)| !source.is_empty())
        }
        _ => None,
    })
}
