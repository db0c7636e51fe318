//! `[doors]`: where events go whose requests name no source.

use tidegate_model::{Access, Setting};

use crate::door_options::DoorOptions;

/// The name of the source of a door; of which events, if not of all whose request names none.
macro_rules! source {
    ($door:literal, $paths:literal) => {
        source!($door, $paths, "whose request names none")
    };
    ($door:literal, $paths:literal, $events:literal) => {
        Setting {
            name: concat!($door, "_source"),
            what: concat!("the source of events at ", $paths, " ", $events, "; empty refuses them"),
            access: Access::Text {
                how: "the name of a source, or nothing",
                get: |o: &DoorOptions| o.source($door).to_owned(),
                set: |o, name| o.set_source($door, name),
            },
        }
    };
}

pub(super) const DOORS: &[Setting<DoorOptions>] = &[
    source!("logs", "/api/logs"),
    source!("otlp", "/v1/logs"),
    source!("json", "/logs/json"),
    source!("vector", "/logs/vector"),
    source!("logplex", "/logs/logplex"),
    source!("elixir", "/logs/elixir/logger"),
    source!("cloudflare", "/logs/cloudflare"),
    source!("vercel", "/logs/vercel"),
    Setting {
        name: "vercel_verify",
        what: "the text that Vercel expects in the header x-vercel-verify; empty sends no such header",
        access: Access::Text {
            how: "visible ASCII characters, or nothing",
            get: |o: &DoorOptions| o.vercel_verify.clone(),
            set: |o, text| {
                let good = text.chars().all(|character| character.is_ascii_graphic());
                if good {
                    o.vercel_verify = text.to_owned();
                }
                good
            },
        },
    },
    source!("netlify", "/logs/netlify"),
    source!("loki", "/loki/api/v1/push"),
    source!("elasticsearch", "/_bulk", "whose index is no source, or that name none"),
    source!("splunk", "/services/collector"),
    source!("datadog", "/api/v2/logs"),
    source!("firehose", "/logs/firehose"),
    source!("axiom", "/v1/datasets/NAME/ingest"),
    source!("logtail", "/ (Better Stack)"),
    source!("journal", "/upload (systemd-journal-upload)"),
];
