//! The options of syslog over TCP and TLS, and which of them are safe together.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use chrono_tz::Tz;

use crate::networks::Network;

/// The shortest prefix of a network whose senders need no token: shorter ones are not one operator's networks.
const SHORTEST_PREFIX_V4: u32 = 8;
/// The same for IPv6: `fc00::/7` are the private addresses.
const SHORTEST_PREFIX_V6: u32 = 7;

/// The options of syslog over TCP and TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct SyslogOptions {
    /// The address to listen on without TLS. None does not.
    pub listen: Option<SocketAddr>,
    /// The address to listen on with TLS. None does not.
    pub tls_listen: Option<SocketAddr>,
    /// The PEM file with the certificate chain for senders; none is that of the HTTP interface.
    pub tls_certificate: Option<PathBuf>,
    /// The PEM file with the key of [`Self::tls_certificate`].
    pub tls_key: Option<PathBuf>,
    /// The PEM file with the certificates that sign those of senders. If it is set, a sender over TLS must have one, and
    /// needs no token.
    pub client_ca: Option<PathBuf>,
    /// The networks whose senders need no token.
    pub networks: Vec<Network>,
    /// The source of messages that name none. Senders without a token can send to this one only. Empty is none.
    pub source: String,
    /// The zone of times without one.
    pub time_zone: Tz,
    /// The most connections at once.
    pub max_connections: usize,
    /// Of these, the most of one address.
    pub connections_per_address: usize,
    /// The time for a message to arrive, from its first byte; for the first message of a sender that needs a token, from
    /// the beginning of the connection.
    pub message_timeout: Duration,
    /// The time that a connection is kept on which nothing comes.
    pub idle_timeout: Duration,
    /// How long messages wait for others to be stored with.
    pub batch_time: Duration,
}

impl Default for SyslogOptions {
    fn default() -> Self {
        Self {
            listen: None,
            tls_listen: None,
            tls_certificate: None,
            tls_key: None,
            client_ca: None,
            networks: vec![
                Network::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
                Network::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
            ],
            source: String::new(),
            time_zone: Tz::UTC,
            max_connections: 1000,
            connections_per_address: 100,
            message_timeout: Duration::from_secs(30),
            // Many senders notice only after the next message that a connection was closed, and lose it.
            idle_timeout: Duration::from_secs(24 * 3600),
            batch_time: Duration::from_millis(100),
        }
    }
}

impl SyslogOptions {
    /// Why these options cannot be used, or would let anybody send.
    ///
    /// # Errors
    /// What contradicts each other, and how to mend it.
    pub(crate) fn check(&self, has_certificate: bool) -> Result<(), String> {
        let own = match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => {
                return Err("[syslog] tls_certificate is set and tls_key is not; TLS needs both".to_owned());
            }
            (None, Some(_)) => {
                return Err("[syslog] tls_key is set and tls_certificate is not; TLS needs both".to_owned());
            }
            (certificate, _) => certificate.is_some(),
        };
        if self.tls_listen.is_some() && !own && !has_certificate {
            let message = "[syslog] tls_listen is set and there is no certificate; set tls_certificate and tls_key there or under \
                           [server]";
            return Err(message.to_owned());
        }
        if self.client_ca.is_some() && self.tls_listen.is_none() {
            let message =
                "[syslog] client_ca is set and tls_listen is not; certificates of senders are read over TLS only";
            return Err(message.to_owned());
        }
        let is_wide = |network: &&Network| {
            let shortest = if network.is_v4() { SHORTEST_PREFIX_V4 } else { SHORTEST_PREFIX_V6 };
            network.prefix() < shortest
        };
        match self.networks.iter().find(is_wide) {
            Some(network) => Err(format!(
                "[syslog] networks has {network}: anybody could send without a token; name the networks of your senders, or \
                 have them send a token, or a certificate (client_ca)"
            )),
            None => Ok(()),
        }
    }

    /// Whether a sender at this address needs no token.
    pub fn is_trusted(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.has(address) || network.has(address.to_canonical()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::networks::networks;

    fn with(change: impl FnOnce(&mut SyslogOptions)) -> Result<(), String> {
        let mut options =
            SyslogOptions { listen: Some(SocketAddr::from(([0, 0, 0, 0], 514))), ..SyslogOptions::default() };
        change(&mut options);
        options.check(false)
    }

    #[test]
    fn what_lets_anybody_send_is_refused() {
        with(|_| {}).unwrap();
        for open in ["0.0.0.0/0", "::/0", "10.0.0.0/8, 0.0.0.0/1, 128.0.0.0/1", "2000::/3"] {
            let message = with(|options| options.networks = networks(open).unwrap()).unwrap_err();
            assert!(message.contains("anybody could send"), "{message}");
        }
        with(|options| options.networks = networks("10.0.0.0/8, fc00::/7, 203.0.113.7").unwrap()).unwrap();
        with(|options| options.networks = Vec::new()).unwrap();
    }

    #[test]
    fn tls_needs_its_files() {
        let tls = |options: &mut SyslogOptions| options.tls_listen = options.listen;
        assert!(with(tls).unwrap_err().contains("no certificate"));
        assert!(with(|options| options.tls_key = Some("key".into())).unwrap_err().contains("tls_certificate is not"));
        assert!(with(|options| options.client_ca = Some("ca".into())).unwrap_err().contains("tls_listen is not"));
        let options = SyslogOptions { tls_listen: Some(SocketAddr::from(([0; 4], 1))), ..SyslogOptions::default() };
        options.check(true).unwrap();
    }

    #[test]
    fn only_this_machine_needs_no_token_by_default() {
        let trusted = |address: &str| SyslogOptions::default().is_trusted(address.parse().unwrap());
        assert!(trusted("127.0.0.1") && trusted("::1") && trusted("::ffff:127.0.0.1"));
        assert!(!trusted("10.0.0.1") && !trusted("192.168.1.1") && !trusted("fe80::1") && !trusted("::ffff:10.0.0.1"));
    }
}
