//! The client for addresses that others choose: receivers of alerts, issuers of tokens.
//!
//! Whoever owns a name chooses where it points to. So the host is resolved once, what may not be reached is left out, and the
//! connection is made to what is left and to nothing else. No redirect is followed, no proxy of the environment is used, and
//! no connection is kept. What is told of a failure does not repeat the address, which may have a secret in it.

use std::io;
use std::time::Duration;

use ureq::config::Config;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error, http};

use crate::networks::{Network, may_reach};

/// Where a client may connect to, and how long that may take.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    /// The time for a whole exchange, from the look-up of the name to the last byte of the answer.
    pub(crate) time: Duration,
    /// The time for connecting.
    pub(crate) connect_time: Duration,
    /// Networks that may be reached though they are not of the public internet.
    pub(crate) allowed: Vec<Network>,
    /// The setting that names them, for messages.
    pub(crate) setting: &'static str,
}

impl Outbound {
    /// A client within these bounds.
    pub(crate) fn agent(self) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(self.time))
            .timeout_connect(Some(self.connect_time.min(self.time)))
            // Each connection is to an address that was just checked.
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .build();
        let resolver =
            CheckedResolver { allowed: self.allowed, setting: self.setting, names: DefaultResolver::default() };
        Agent::with_parts(config, DefaultConnector::default(), resolver)
    }
}

/// Resolves a name to the addresses that may be reached.
#[derive(Debug)]
struct CheckedResolver {
    allowed: Vec<Network>,
    setting: &'static str,
    names: DefaultResolver,
}

/// All addresses of a host may not be reached.
#[derive(Debug, thiserror::Error)]
#[error("the host has no address of the public internet, and {0} does not allow those that it has")]
struct RefusedAddress(&'static str);

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &http::Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        let mut checked = self.empty();
        for address in found.iter().filter(|address| may_reach(address.ip(), &self.allowed)) {
            checked.push(*address);
        }
        if checked.is_empty() { Err(Error::Io(io::Error::other(RefusedAddress(self.setting)))) } else { Ok(checked) }
    }
}

/// Why an exchange with `whom` failed, without the address.
pub(crate) fn told(error: &Error, whom: &str) -> String {
    match error {
        Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<RefusedAddress>()) => error.to_string(),
        Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => format!("the {whom} speaks no TLS"),
        Error::Io(error) => format!("the connection failed: {}", error.kind()),
        Error::Timeout(_) => format!("the {whom} did not answer in time"),
        Error::HostNotFound => "the host is not known".to_owned(),
        Error::ConnectionFailed => format!("the {whom} cannot be reached"),
        Error::Tls(_) | Error::Rustls(_) => {
            format!("the certificate of the {whom} is not accepted, or it speaks no TLS")
        }
        Error::BadUri(_) | Error::Http(_) => "the url cannot be used".to_owned(),
        _ => format!("the {whom}'s answer cannot be read"),
    }
}
