//! The settings of a service: names, bounds, units and descriptions, one table for each section of the configuration.
//!
//! The command line reads and prints settings through these tables, and `docs/limits.md` is tested against them. What each
//! value does is documented in [`crate::options`].

#[macro_use]
mod macros;
mod admission;
mod alerts;
mod arrays;
mod cluster;
mod compaction;
mod doors;
mod follow;
mod ingest;
mod issuers;
mod server;
mod storage;
mod syslog;
#[cfg(test)]
mod tests;
mod traces;

use tidegate_model::{LIMITS, Part, Section, SettingError, Unit, number};

use crate::options::Options;
use admission::{ADMISSION, CACHE, COMPONENTS, RATE};
use alerts::ALERTS;
pub use arrays::TableArray;
use cluster::CLUSTER;
use compaction::COMPACTION;
use doors::DOORS;
use follow::FOLLOW;
use ingest::{INGEST, STORE};
use issuers::ISSUERS;
use server::SERVER;
use storage::STORAGE;
use syslog::SYSLOG;
use traces::TRACES;

/// A section whose settings are held by a field of the options, or by all of them.
macro_rules! section {
    ($name:literal, $what:literal, $settings:expr) => {
        &Part { name: $name, what: $what, settings: $settings, of: |o| o, of_mut: |o| o }
    };
    ($name:literal, $what:literal, $settings:expr, $($field:ident).+) => {
        &Part {
            name: $name,
            what: $what,
            settings: $settings,
            of: |o: &Options| &o.$($field).+,
            of_mut: |o| &mut o.$($field).+,
        }
    };
}

/// All sections, in the order in which they are told.
pub static SECTIONS: &[&dyn Section<Options>] = &[
    section!("server", "listening, logging, connections", SERVER),
    section!("limits", "what one request may use", LIMITS, limits),
    section!("ingest", "what clients may send", INGEST),
    section!("doors", "the ways in which events come in", DOORS, doors),
    section!("syslog", "syslog over TCP and TLS; off unless it listens", SYSLOG),
    section!("cache", "kept answers", CACHE, cache),
    section!("store", "how long logs are kept, in each source that has no rule of its own", STORE, store.retention),
    section!("compaction", "how small segments become large ones in the background", COMPACTION, store),
    section!("storage", "where segments are kept besides the data folder, and what of them stays in memory", STORAGE),
    section!("rate", "the share of one token", RATE, rate),
    section!(
        "admission",
        "how much is done at once, over all callers; what is over it is told to try again",
        ADMISSION,
        admission
    ),
    section!("follow", "queries that go on with new rows as they come", FOLLOW, follow),
    section!(
        "components",
        "compiling the components of endpoints with code, and keeping them ready",
        COMPONENTS,
        components
    ),
    section!("alerts", "how alerts of endpoints are run, and where their messages may go", ALERTS, alerts),
    section!(
        "traces",
        "where traces go, over OTLP/HTTP; headers for it stand in OTEL_EXPORTER_OTLP_HEADERS",
        TRACES,
        traces
    ),
    section!(
        "cluster",
        "workers that run parts of statements (tidegate worker); without them every statement runs in this process",
        CLUSTER
    ),
];

/// All parts of which there may be several, which stand behind the sections.
pub static ARRAYS: &[TableArray] = &[ISSUERS];

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
    options.syslog.check(certificate.is_some()).map_err(SettingError::Contradiction)?;
    options.cluster.check().map_err(SettingError::Contradiction)?;
    crate::issuers::check(&options.issuers).map_err(SettingError::Contradiction)?;
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
