//! `[syslog]`: syslog over TCP and TLS.

use std::net::SocketAddr;
use tidegate_model::{Access, HOUR, Setting, count, time};

use crate::options::Options;

/// An address that there may be.
macro_rules! address {
    ($name:literal, $what:literal, $field:ident) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Text {
                how: "an address and a port, such as \"0.0.0.0:6514\", or nothing",
                get: |o: &Options| o.syslog.$field.map_or_else(String::new, |address| address.to_string()),
                set: |o, text| {
                    if text.is_empty() {
                        o.syslog.$field = None;
                        return true;
                    }
                    text.parse().map(|address: SocketAddr| o.syslog.$field = Some(address)).is_ok()
                },
            },
        }
    };
}

pub(super) const SYSLOG: &[Setting<Options>] = &[
    address!("listen", "where to take syslog over TCP without TLS; empty takes none", listen),
    address!("tls_listen", "where to take syslog over TLS; empty takes none", tls_listen),
    path!(
        "tls_certificate",
        "the certificate for senders and those that signed it, in PEM; empty is that of [server]",
        syslog.tls_certificate
    ),
    path!("tls_key", "the private key of that certificate, in PEM, not encrypted", syslog.tls_key),
    path!(
        "client_ca",
        "certificates in PEM that sign those of senders: with it every sender over TLS must have one, and needs no token",
        syslog.client_ca
    ),
    networks!("networks", "networks whose senders need no token", Options, syslog.networks),
    Setting {
        name: "source",
        what: "the source of messages that name none, and the only one for senders without a token; empty refuses them",
        access: Access::Text {
            how: "the name of a source, or nothing",
            get: |o: &Options| o.syslog.source.clone(),
            set: |o, text| {
                let good = !text.chars().any(char::is_control);
                if good {
                    o.syslog.source = text.to_owned();
                }
                good
            },
        },
    },
    Setting {
        name: "time_zone",
        what: "the zone of times that have none",
        access: Access::Text {
            how: "the name of a zone, such as \"UTC\" or \"Europe/Berlin\"",
            get: |o: &Options| o.syslog.time_zone.name().to_owned(),
            set: |o, text| text.parse().map(|zone| o.syslog.time_zone = zone).is_ok(),
        },
    },
    count!("max_connections", "connections of syslog at once", 1, 100_000, Options, syslog.max_connections),
    count!(
        "connections_per_address",
        "of these, the most of one address; 0 is no limit",
        0,
        100_000,
        Options,
        syslog.connections_per_address
    ),
    time!(
        "message_timeout",
        "how long a message may take to arrive, and the first one of a sender that needs a token",
        100,
        HOUR,
        Options,
        syslog.message_timeout
    ),
    time!(
        "idle_timeout",
        "how long a connection is kept on which nothing comes",
        100,
        30 * 24 * HOUR,
        Options,
        syslog.idle_timeout
    ),
    time!("batch_time", "how long messages wait for others to be stored with", 1, 60_000, Options, syslog.batch_time),
];
