//! One attempt to send a message.
//!
//! The address is hostile: whoever saves an endpoint chooses it, and whoever owns the name chooses where it points to. So the
//! host is resolved once, what may not be reached is left out, and the connection is made to what is left and to nothing else.
//! No redirect is followed, no proxy of the environment is used, and of the answer only the status counts. What is told of a
//! failure does not repeat the address, which may have a secret of the receiver in it.

use std::io::{self, Read};
use std::time::Instant;

use tidegate_model::milliseconds;
use ureq::config::Config;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error, http};

use super::message::signature;
use crate::networks::{Network, may_reach};
use crate::options::AlertOptions;

/// The most bytes of an answer that are read.
const MOST_ANSWER: u64 = 4 << 10;

/// A client for messages.
#[derive(Debug)]
pub(super) struct Sender {
    agent: Agent,
}

/// A message with the address and the secret of its alert.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) url: &'a str,
    pub(super) secret: &'a str,
    pub(super) body: &'a str,
    /// The time of the attempt, in seconds since 1970.
    pub(super) seconds: i64,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The status that was answered, or why there is none.
    pub(super) status: Result<u16, String>,
    /// How long it took.
    pub(super) milliseconds: u64,
}

impl Attempt {
    /// Whether the receiver confirmed the message.
    pub(super) fn is_confirmed(&self) -> bool {
        self.status.as_ref().is_ok_and(|status| (200..300).contains(status))
    }
}

impl Sender {
    pub(super) fn new(options: &AlertOptions) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(options.send_time))
            .timeout_connect(Some(options.connect_time.min(options.send_time)))
            // Each message goes to an address that was just checked.
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .build();
        let resolver = CheckedResolver { allowed: options.allow_networks.clone(), names: DefaultResolver::default() };
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), resolver) }
    }

    /// Sends a message. Blocks, for the time that a receiver may take.
    pub(super) fn send(&self, message: &Outgoing<'_>) -> Attempt {
        let began = Instant::now();
        let status = self.post(message).map_err(|error| told(&error));
        Attempt { status, milliseconds: milliseconds(began.elapsed()) }
    }

    fn post(&self, message: &Outgoing<'_>) -> Result<u16, Error> {
        let Outgoing { url, secret, body, seconds } = message;
        let request = http::Request::post(*url)
            .header("content-type", "application/json")
            .header("x-tidegate-timestamp", seconds.to_string())
            .header("x-tidegate-signature", signature(secret, *seconds, body))
            .body(*body)?;
        let mut answer = self.agent.run(request)?;
        // Some servers take a request as broken off if nobody reads their answer. What it says does not matter.
        let _ = io::copy(&mut answer.body_mut().as_reader().take(MOST_ANSWER), &mut io::sink());
        Ok(answer.status().as_u16())
    }
}

/// Resolves a name to the addresses that may be reached.
#[derive(Debug)]
struct CheckedResolver {
    allowed: Vec<Network>,
    names: DefaultResolver,
}

/// All addresses of a host may not be reached.
#[derive(Debug, thiserror::Error)]
#[error("the host has no address of the public internet, and [alerts] allow_networks does not allow those that it has")]
struct RefusedAddress;

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &http::Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        let mut checked = self.empty();
        for address in found.iter().filter(|address| may_reach(address.ip(), &self.allowed)) {
            checked.push(*address);
        }
        if checked.is_empty() { Err(Error::Io(io::Error::other(RefusedAddress))) } else { Ok(checked) }
    }
}

/// Why an attempt failed, without the address.
fn told(error: &Error) -> String {
    match error {
        Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<RefusedAddress>()) => {
            RefusedAddress.to_string()
        }
        Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => "the receiver speaks no TLS".to_owned(),
        Error::Io(error) => format!("the connection failed: {}", error.kind()),
        Error::Timeout(_) => "the receiver did not answer in time".to_owned(),
        Error::HostNotFound => "the host is not known".to_owned(),
        Error::ConnectionFailed => "the receiver cannot be reached".to_owned(),
        Error::Tls(_) | Error::Rustls(_) => {
            "the certificate of the receiver is not accepted, or it speaks no TLS".to_owned()
        }
        Error::BadUri(_) | Error::Http(_) => "the url cannot be used".to_owned(),
        _ => "the receiver's answer cannot be read".to_owned(),
    }
}
