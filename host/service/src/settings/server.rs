//! `[server]`: listening, logging, connections.

use tidegate_model::{Access, Errors, GIB, HOUR, Setting, bytes, count, time};

use crate::options::{LogFormat, Options};

pub(super) const SERVER: &[Setting<Options>] = &[
    Setting {
        name: "listen",
        what: "where to listen",
        access: Access::Text {
            how: "an address and a port, such as \"0.0.0.0:4000\" or \"[::]:4000\"",
            get: |o: &Options| o.server.listen.to_string(),
            set: |o, text| text.parse().map(|address| o.server.listen = address).is_ok(),
        },
    },
    path!(
        "tls_certificate",
        "the server's certificate and those that signed it, in PEM: with it only https is spoken; read again when it changes",
        server.tls_certificate
    ),
    path!("tls_key", "the private key of that certificate, in PEM, not encrypted", server.tls_key),
    Setting {
        name: "data_dir",
        what: "the folder that holds everything: catalog, logs, endpoints",
        access: Access::Text {
            how: "a path",
            get: |o: &Options| o.data_dir.display().to_string(),
            set: |o, text| {
                o.data_dir = text.into();
                !text.is_empty()
            },
        },
    },
    Setting {
        name: "log_format",
        what: "how log lines are written, on standard error",
        access: Access::Text {
            how: "\"text\" or \"json\"",
            get: |o: &Options| match o.server.log_format {
                LogFormat::Text => "text".to_owned(),
                LogFormat::Json => "json".to_owned(),
            },
            set: |o, text| {
                let format = match text {
                    "text" => LogFormat::Text,
                    "json" => LogFormat::Json,
                    _ => return false,
                };
                o.server.log_format = format;
                true
            },
        },
    },
    Setting {
        name: "log_level",
        what: "which log lines are written",
        access: Access::Text {
            how: "\"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", or levels by module: \"info,tidegate_store=debug\"",
            get: |o: &Options| o.server.log_level.clone(),
            set: |o, text| {
                let levels = ["error", "warn", "info", "debug", "trace", "off"];
                let good = |directive: &str| match directive.rsplit_once('=') {
                    Some((module, level)) => !module.trim().is_empty() && levels.contains(&level.trim()),
                    None => levels.contains(&directive.trim()),
                };
                let good = text.split(',').all(good);
                if good {
                    o.server.log_level = text.to_owned();
                }
                good
            },
        },
    },
    Setting {
        name: "errors",
        what: "errors of queries have their own status, or status 200 with result null and error a text, as log viewers such as \
               Supabase Studio read it; an endpoint and a token can say otherwise",
        access: Access::Text {
            how: Errors::CHOICES,
            get: |o: &Options| o.server.errors.name().to_owned(),
            set: |o, text| Errors::named(text).map(|errors| o.server.errors = errors).is_some(),
        },
    },
    time!(
        "head_timeout",
        "how long a request's head may take to arrive; on a new connection, the handshake of TLS too",
        100,
        HOUR,
        Options,
        server.head_timeout
    ),
    time!(
        "body_timeout",
        "the longest pause in a request's body, and its head start on least_rate",
        100,
        HOUR,
        Options,
        server.body_timeout
    ),
    time!(
        "idle_timeout",
        "how long a connection without a request is kept",
        100,
        24 * HOUR,
        Options,
        server.idle_timeout
    ),
    time!(
        "write_timeout",
        "the longest pause in which a client takes nothing of its answer, and its head start on least_rate",
        100,
        HOUR,
        Options,
        server.write_timeout
    ),
    bytes!(
        "least_rate",
        "bytes a second that a client must send or take on average",
        1,
        GIB,
        Options,
        server.least_rate
    ),
    time!(
        "drain_delay",
        "how long after SIGTERM everything is served and GET /ready is 503, before connections are refused",
        0,
        HOUR,
        Options,
        server.drain_delay
    ),
    time!("grace", "how long running requests may go on after SIGTERM", 0, HOUR, Options, server.grace),
    count!(
        "max_connections",
        "connections that are served at once; on others only /health is",
        1,
        1_000_000,
        Options,
        server.max_connections
    ),
    count!(
        "connections_without_token",
        "connections of one address on which no valid token was seen yet; 0 is no limit",
        0,
        1_000_000,
        Options,
        server.connections_without_token
    ),
];
