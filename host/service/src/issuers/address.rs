//! Addresses at which keys are read: https, or http on this machine.
//!
//! Keys decide who may read what. Whoever can change them on their way is every user of the issuer.

use std::net::IpAddr;

use ureq::http::Uri;

use crate::networks::{Network, networks};

/// The networks of this machine.
const LOOPBACK: &str = "127.0.0.0/8, ::1";

/// An address at which keys may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: String,
    host: String,
    is_here: bool,
}

/// The text is no such address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no address with https, or with http on this machine (127.0.0.1, localhost), without a user")]
pub(super) struct NoAddress;

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// It has another scheme, a user or no host; or it is one of another machine, with http.
    pub(super) fn read(url: &str) -> Result<Self, NoAddress> {
        let uri: Uri = url.parse().map_err(|_| NoAddress)?;
        let authority = uri.authority().ok_or(NoAddress)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_safe = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => is_here,
            _ => false,
        };
        if !is_safe || host.is_empty() || authority.as_str().contains('@') || url.contains(['#', ' ']) {
            return Err(NoAddress);
        }
        Ok(Self { url: url.to_owned(), host, is_here })
    }

    /// Whether its host is this one.
    pub(super) fn is_at(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(host)
    }

    /// Whether both have the same host.
    pub(super) fn has_host_of(&self, other: &Self) -> bool {
        self.host == other.host
    }

    /// The networks that it may be in: those that are allowed, and this machine if the address says so.
    pub(super) fn reach(&self, allowed: &[Network]) -> Vec<Network> {
        let here = if self.is_here { networks(LOOPBACK).unwrap_or_default() } else { Vec::new() };
        [allowed.to_vec(), here].concat()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine() {
        for url in [
            "https://id.example.com/keys",
            "https://id.example.com:8443/keys?x=1",
            "http://127.0.0.1:1/keys",
            "http://localhost/keys",
            "http://[::1]:1/keys",
            "https://10.0.0.1/keys",
        ] {
            assert!(Address::read(url).is_ok(), "{url}");
        }
        for url in [
            "http://id.example.com/keys",
            "http://10.0.0.1/keys",
            "http://localhost.example.com/keys",
            "http://127.0.0.1.example.com/keys",
            "https://user@id.example.com/keys",
            "http://127.0.0.1@id.example.com/keys",
            "file:///etc/passwd",
            "ftp://127.0.0.1/keys",
            "/keys",
            "id.example.com/keys",
            "https://",
            "",
        ] {
            assert_eq!(Address::read(url), Err(NoAddress), "{url}");
        }
        let address = Address::read("https://ID.example.com/keys").unwrap();
        assert!(address.is_at("id.EXAMPLE.com") && !address.is_at("example.com"));
        assert!(address.reach(&[]).is_empty());
    }
}
