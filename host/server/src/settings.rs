//! The settings of a service: one table a section.

use std::time::Duration;

use tidegate_model::{Access, Errors, GIB, HOUR, KIB, LIMITS, MIB, Part, Section, Setting, SettingError, Unit};
use tidegate_model::{milliseconds, number, size};
use tidegate_store::Retention;

use crate::options::{AdmissionOptions, CacheOptions, ComponentOptions, LogFormat, Options, RateOptions, TraceOptions};

/// All sections, in the order in which they are told.
pub static SECTIONS: &[&dyn Section<Options>] = &[
    &Part { name: "server", what: "listening, logging, connections", settings: SERVER, of: |o| o, of_mut: |o| o },
    &Part {
        name: "limits",
        what: "what one request may use",
        settings: LIMITS,
        of: |o: &Options| &o.limits,
        of_mut: |o| &mut o.limits,
    },
    &Part { name: "ingest", what: "what clients may send", settings: INGEST, of: |o| o, of_mut: |o| o },
    &Part {
        name: "cache",
        what: "kept answers",
        settings: CACHE,
        of: |o: &Options| &o.cache,
        of_mut: |o| &mut o.cache,
    },
    &Part {
        name: "store",
        what: "how long logs are kept, in each source that has no rule of its own",
        settings: STORE,
        of: |o: &Options| &o.store.retention,
        of_mut: |o| &mut o.store.retention,
    },
    &Part {
        name: "rate",
        what: "the share of one token",
        settings: RATE,
        of: |o: &Options| &o.rate,
        of_mut: |o| &mut o.rate,
    },
    &Part {
        name: "admission",
        what: "how much is done at once, over all callers; what is over it is told to try again",
        settings: ADMISSION,
        of: |o: &Options| &o.admission,
        of_mut: |o| &mut o.admission,
    },
    &Part {
        name: "components",
        what: "compiling the components of endpoints with code, and keeping them ready",
        settings: COMPONENTS,
        of: |o: &Options| &o.components,
        of_mut: |o| &mut o.components,
    },
    &Part {
        name: "traces",
        what: "where traces go, over OTLP/HTTP; headers for it stand in OTEL_EXPORTER_OTLP_HEADERS",
        settings: TRACES,
        of: |o: &Options| &o.traces,
        of_mut: |o| &mut o.traces,
    },
];

/// Checks the settings against each other, when all are set.
///
/// # Errors
/// What contradicts each other, and how to mend it.
pub fn validate(options: &Options) -> Result<(), SettingError> {
    options.limits.validate()?;
    let (certificate, key) = (&options.server.tls_certificate, &options.server.tls_key);
    if certificate.is_some() != key.is_some() {
        let (there, missing) =
            if key.is_none() { ("tls_certificate", "tls_key") } else { ("tls_key", "tls_certificate") };
        let message = format!("[server] {there} is set and {missing} is not; https needs both, http none");
        return Err(SettingError::Contradiction(message));
    }
    let ingest = &options.ingest;
    for (least, what, most, of) in [
        (options.store.max_event_bytes, "event_bytes", ingest.max_body, "max_body"),
        (ingest.max_body, "max_body", ingest.body_memory, "body_memory"),
    ] {
        if least > most {
            let (a, b) = (Unit::Bytes.show(number(least)), Unit::Bytes.show(number(most)));
            let message = format!("{what} ({a}) is more than {of} ({b}); raise {of} or lower {what}");
            return Err(SettingError::Contradiction(message));
        }
    }
    let (answer, share) = (options.limits.answer_bytes, options.admission.answer_memory / 2);
    if answer > share {
        let message = format!(
            "answer_bytes ({}) is more than half of [admission] answer_memory ({}), which is what one token has; raise \
             answer_memory or lower answer_bytes",
            Unit::Bytes.show(number(answer)),
            Unit::Bytes.show(number(options.admission.answer_memory)),
        );
        return Err(SettingError::Contradiction(message));
    }
    Ok(())
}

/// A number of bytes, held as a size.
macro_rules! bytes {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::Bytes,
                least: $least,
                most: $most,
                get: |o: &$holder| number(o.$($field).+),
                set: |o, n| o.$($field).+ = size(n),
            },
        }
    };
}

/// A number of things, held as a size.
macro_rules! count {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::Count,
                least: $least,
                most: $most,
                get: |o: &$holder| number(o.$($field).+),
                set: |o, n| o.$($field).+ = size(n),
            },
        }
    };
}

/// A number held as it is.
macro_rules! plain {
    ($unit:ident, $name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::$unit,
                least: $least,
                most: $most,
                get: |o: &$holder| o.$($field).+,
                set: |o, n| o.$($field).+ = n,
            },
        }
    };
}

macro_rules! time {
    ($name:literal, $what:literal, $least:expr, $most:expr, $holder:ty, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Number {
                unit: Unit::Time,
                least: $least,
                most: $most,
                get: |o: &$holder| milliseconds(o.$($field).+),
                set: |o, n| o.$($field).+ = Duration::from_millis(n),
            },
        }
    };
}

/// A file that there may be.
macro_rules! path {
    ($name:literal, $what:literal, $($field:ident).+) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Text {
                how: "a path, or nothing",
                get: |o: &Options| o.$($field).+.as_ref().map_or_else(String::new, |path| path.display().to_string()),
                set: |o, text| {
                    o.$($field).+ = (!text.is_empty()).then(|| text.into());
                    true
                },
            },
        }
    };
}

const SERVER: &[Setting<Options>] = &[
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
    plain!(
        Bytes,
        "least_rate",
        "bytes a second that a client must send or take on average",
        1,
        GIB,
        Options,
        server.least_rate
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

const INGEST: &[Setting<Options>] = &[
    bytes!("max_body", "the longest body, as sent and as decompressed", KIB, GIB, Options, ingest.max_body),
    Setting {
        name: "key_in_query",
        what: "whether a token may stand in the query string (?api_key=), where proxies log it",
        access: Access::Flag { get: |o: &Options| o.ingest.key_in_query, set: |o, flag| o.ingest.key_in_query = flag },
    },
    bytes!("event_bytes", "the longest event, as JSON", KIB, GIB, Options, store.max_event_bytes),
    bytes!(
        "buffer_bytes",
        "events that are in memory and not yet in segments; beyond, they are refused",
        MIB,
        1024 * GIB,
        Options,
        store.max_unflushed_bytes
    ),
    bytes!(
        "body_memory",
        "bodies that are received at once, and the events cut out of them until they are stored; beyond, they are refused",
        KIB,
        1024 * GIB,
        Options,
        ingest.body_memory
    ),
];

const CACHE: &[Setting<CacheOptions>] = &[
    bytes!("memory", "answers that are kept; 0 keeps none", 0, 1024 * GIB, CacheOptions, memory),
    count!("warming_concurrency", "endpoints that are warmed at once", 1, 1_000, CacheOptions, warming_concurrency),
];

const DAY: Duration = Duration::from_secs(24 * 3600);

const STORE: &[Setting<Retention>] = &[
    Setting {
        name: "retention_days",
        what: "days that logs are kept after they came in; 0 is for ever",
        access: Access::Number {
            unit: Unit::Count,
            least: 0,
            most: 36_500,
            get: |o: &Retention| o.max_age.map_or(0, |age| age.as_secs() / DAY.as_secs()),
            set: |o, n| o.max_age = u32::try_from(n).ok().filter(|days| *days > 0).map(|days| DAY * days),
        },
    },
    Setting {
        name: "retention_bytes",
        what: "size of one source's segments over which the oldest go; 0 is no limit",
        access: Access::Number {
            unit: Unit::Bytes,
            least: 0,
            most: 1024 * 1024 * GIB,
            get: |o: &Retention| o.max_bytes.unwrap_or(0),
            set: |o, n| o.max_bytes = Some(n).filter(|bytes| *bytes > 0),
        },
    },
];

const RATE: &[Setting<RateOptions>] = &[
    plain!(
        Count,
        "queries_per_second",
        "queries of one token; 0 is no limit",
        0,
        1_000_000,
        RateOptions,
        queries_per_second
    ),
    plain!(
        Count,
        "ingest_per_second",
        "ingest requests of one token; 0 is no limit",
        0,
        1_000_000,
        RateOptions,
        ingest_per_second
    ),
    plain!(
        Count,
        "burst",
        "requests that may come at once after a pause; 0 is what two seconds allow",
        0,
        10_000_000,
        RateOptions,
        burst
    ),
];

const ADMISSION: &[Setting<AdmissionOptions>] = &[
    count!(
        "concurrency",
        "queries that run at once, half of them for one token; 0 is 8 for each processor and at least 32",
        0,
        1_000,
        AdmissionOptions,
        concurrency
    ),
    count!("queue", "queries that may wait for their turn", 0, 100_000, AdmissionOptions, queue),
    time!("wait", "how long one may wait", 0, 60_000, AdmissionOptions, wait),
    bytes!(
        "answer_memory",
        "encoded answers that are not yet read by who asked for them, half of it for one token",
        MIB,
        16 * 1024 * GIB,
        AdmissionOptions,
        answer_memory
    ),
];

const COMPONENTS: &[Setting<ComponentOptions>] = &[
    time!(
        "compile_time",
        "how long compiling one may take before it is refused",
        100,
        HOUR,
        ComponentOptions,
        compile_time
    ),
    plain!(
        Bytes,
        "compile_memory",
        "memory that compiling one may take before it is refused",
        256 * MIB,
        1024 * GIB,
        ComponentOptions,
        compile_memory
    ),
    bytes!(
        "code_memory",
        "compiled code that is kept ready; the rest is read from disk when it is called",
        MIB,
        1024 * GIB,
        ComponentOptions,
        code_memory
    ),
];

const TRACES: &[Setting<TraceOptions>] = &[
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_default_can_be_written_back_and_fits() {
        for section in SECTIONS {
            for name in section.settings() {
                let mut options = Options::default();
                let text = section.show(&options, name).unwrap();
                section.set(&mut options, name, &text).unwrap();
                assert_eq!(options, Options::default(), "{name}");
            }
        }
        validate(&Options::default()).unwrap();
    }

    #[test]
    fn every_setting_sets_one_thing_of_its_own() {
        let others = [
            ("listen", "0.0.0.0:1"),
            ("tls_certificate", "certificate.pem"),
            ("tls_key", "key.pem"),
            ("data_dir", "elsewhere"),
            ("log_format", "json"),
            ("log_level", "off,tidegate_store=debug"),
            ("errors", "ok"),
            ("key_in_query", "true"),
            ("endpoint", "http://collector:4318"),
            ("service_name", "other"),
            ("sample", "0.5"),
        ];
        let all = |options: &Options| -> Vec<String> {
            let of = |section: &&dyn Section<Options>| -> Vec<String> {
                section.settings().iter().map(|name| section.show(options, name).unwrap()).collect()
            };
            SECTIONS.iter().flat_map(of).collect()
        };
        for section in SECTIONS {
            for name in section.settings() {
                let mut options = Options::default();
                let known = others.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
                // Every number's default is another than one of these.
                let tries = match known {
                    Some(text) => vec![text],
                    None => ["17", "70001", "1048577", "300000001", "50001 ms"].map(str::to_owned).to_vec(),
                };
                assert!(tries.iter().any(|text| section.set(&mut options, name, text).is_ok()), "{name}");
                let (before, after) = (all(&Options::default()), all(&options));
                assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn texts_without_their_form_are_refused() {
        for (section, name, text) in [
            ("server", "listen", "4000"),
            ("server", "log_level", "loud"),
            ("server", "log_level", "tidegate_store=loud"),
            ("server", "log_format", "xml"),
            ("server", "errors", "200"),
            ("ingest", "key_in_query", "yes"),
            ("traces", "sample", "2"),
            ("traces", "sample", "NaN"),
            ("traces", "endpoint", "ftp://collector"),
            ("traces", "endpoint", "https://"),
            ("traces", "endpoint", "https://user:secret@collector"),
            ("traces", "endpoint", "http://user:secret@collector"),
            ("traces", "endpoint", "http://collector/v1/traces"),
        ] {
            let section = SECTIONS.iter().find(|known| known.name() == section).unwrap();
            let error = section.set(&mut Options::default(), name, text).unwrap_err();
            assert!(matches!(error, SettingError::Unreadable { .. }), "{name} = {text}: {error}");
        }
    }

    #[test]
    fn receivers_of_traces_may_speak_tls() {
        let section = SECTIONS.iter().find(|known| known.name() == "traces").unwrap();
        for address in ["http://127.0.0.1:4318", "https://collector", "https://collector.example.com:4318/"] {
            let mut options = Options::default();
            section.set(&mut options, "endpoint", address).unwrap();
            assert_eq!(options.traces.endpoint, address.trim_end_matches('/'));
        }
    }

    #[test]
    fn contradictions_are_told() {
        let mut options = Options::default();
        options.store.max_event_bytes = options.ingest.max_body + 1;
        assert!(validate(&options).unwrap_err().to_string().contains("lower event_bytes"));
        let mut options = Options::default();
        options.server.tls_key = Some("key.pem".into());
        assert!(validate(&options).unwrap_err().to_string().contains("tls_certificate is not"));
        options.server.tls_certificate = Some("certificate.pem".into());
        validate(&options).unwrap();
        options.server.tls_key = None;
        assert!(validate(&options).unwrap_err().to_string().contains("tls_key is not"));
        let mut options = Options::default();
        options.admission.answer_memory = options.limits.answer_bytes * 2 - 1;
        assert!(validate(&options).unwrap_err().to_string().contains("raise answer_memory"));
    }
}
