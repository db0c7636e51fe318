//! Where workers are: addresses, or names that stand for all their addresses.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Where workers are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerAddress {
    /// One worker.
    Fixed(SocketAddr),
    /// A worker at each address of a name, and a port.
    Named(Arc<str>, u16),
}

impl FromStr for WorkerAddress {
    type Err = ();

    /// Reads `host:port`.
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Fixed(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(())?;
        let is_name = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
        // What has only digits and dots is an address that cannot be read.
        let is_address = host.chars().all(|c| c.is_ascii_digit() || c == '.');
        if host.is_empty() || host.len() > 253 || !is_name || is_address {
            return Err(());
        }
        let port = port.parse().map_err(|_| ())?;
        if port == 0 { Err(()) } else { Ok(Self::Named(host.into(), port)) }
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(address) => address.fmt(f),
            Self::Named(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// The addresses of a name now.
///
/// # Errors
/// Why there are none.
pub(crate) async fn resolved(host: &str, port: u16) -> Result<BTreeSet<SocketAddr>, String> {
    let found = tokio::net::lookup_host((host, port)).await.map_err(|error| error.to_string())?;
    let found: BTreeSet<_> = found.collect();
    if found.is_empty() { Err("the name has no address".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["127.0.0.1:4100", "[::1]:4100", "workers:4100", "workers.tidegate.svc.cluster.local:4100"] {
            assert_eq!(text.parse::<WorkerAddress>().unwrap().to_string(), text);
        }
        for text in
            ["", "workers", ":4100", "workers:", "workers:0", "workers:70000", "::1:4100", "300.1.1.1:4100", "a b:1"]
        {
            assert!(text.parse::<WorkerAddress>().is_err(), "{text}");
        }
    }
}
