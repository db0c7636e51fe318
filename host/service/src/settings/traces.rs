//! `[traces]`: where traces go.

use tidegate_model::{Access, Setting};

use crate::options::TraceOptions;

pub(super) const TRACES: &[Setting<TraceOptions>] = &[
    Setting {
        name: "endpoint",
        what: "the receiver; empty is none",
        access: Access::Text {
            how: "an address without a path, such as \"http://127.0.0.1:4318\" or \"https://collector.example.com\", or nothing",
            get: |o: &TraceOptions| o.endpoint.clone(),
            set: |o, text| {
                let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
                let host = host.map(|rest| rest.trim_end_matches('/'));
                let good = text.is_empty()
                    || host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']));
                if good {
                    o.endpoint = text.trim_end_matches('/').to_owned();
                }
                good
            },
        },
    },
    Setting {
        name: "service_name",
        what: "what this service is called there",
        access: Access::Text {
            how: "a name",
            get: |o: &TraceOptions| o.service_name.clone(),
            set: |o, text| {
                o.service_name = text.to_owned();
                !text.is_empty()
            },
        },
    },
    Setting {
        name: "sample",
        what: "the share of requests that are traced, where the caller has not decided",
        access: Access::Text {
            how: "a number from 0 to 1",
            get: |o: &TraceOptions| o.sample.to_string(),
            set: |o, text| match text.parse::<f64>() {
                Ok(sample) if (0.0..=1.0).contains(&sample) => {
                    o.sample = sample;
                    true
                }
                _ => false,
            },
        },
    },
];
