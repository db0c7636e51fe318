//! Network addresses to which messages may be sent, and ranges that an operator allows.
//!
//! Whoever saves an endpoint chooses the receiver of its alerts. So the server could be made to reach services that only it
//! can reach: of its own machine, of the network around it, of its cloud provider. Therefore only addresses of the public
//! internet are connected to, and those that the operator names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// The number of bits that all its addresses share.
    prefix: u32,
}

/// The text is no range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u32>().map_err(|_| NotANetwork)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(most);
        if prefix > most { Err(NotANetwork) } else { Ok(Self { address, prefix }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// The range of all addresses that share the first `prefix` bits with this one.
    pub(crate) const fn new(address: IpAddr, prefix: u32) -> Self {
        Self { address, prefix }
    }

    /// Whether it is one of IPv4.
    pub(crate) fn is_v4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// The number of bits that all its addresses share.
    pub(crate) fn prefix(&self) -> u32 {
        self.prefix
    }

    /// Whether the address is in the range.
    pub fn has(&self, address: IpAddr) -> bool {
        let beyond = |bits: u32| bits.saturating_sub(self.prefix);
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(beyond(32)).is_none_or(|different| different == 0)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(beyond(128)).is_none_or(|different| different == 0)
            }
            _ => false,
        }
    }
}

/// Ranges from a text with commas between them.
///
/// # Errors
/// One of them is none.
pub fn networks(text: &str) -> Result<Vec<Network>, NotANetwork> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::parse).collect()
}

/// Whether an address may be connected to: it is of the public internet, or in one of the ranges. An IPv4 address that is
/// written as IPv6 counts as what it is in the ranges, and is refused elsewhere.
pub fn may_reach(address: IpAddr, allowed: &[Network]) -> bool {
    if allowed.iter().any(|network| network.has(address) || network.has(address.to_canonical())) {
        return true;
    }
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The ranges of the IANA registry of special addresses that are not of the public internet, and multicast.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

/// Of IPv6 only what is assigned as global (2000::/3), without what stands for an IPv4 address there (6to4, Teredo) and
/// without documentation and benchmarks. What is left out: mapped and translated IPv4 addresses (NAT64), unique local, link
/// local, multicast, loopback.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    (0x2000..0x4000).contains(&a) && !matches!((a, b), (0x2001, 0..0x200 | 0xdb8) | (0x2002, _) | (0x3fff, 0..0x1000))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn reaches(address: &str, allowed: &str) -> bool {
        may_reach(address.parse().unwrap(), &networks(allowed).unwrap())
    }

    #[test]
    fn only_the_public_internet_is_reached() {
        for address in
            ["8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "2600::1", "2a00:1450::1"]
        {
            assert!(reaches(address, ""), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::8.8.8.8",
            "::ffff:8.8.8.8",
            "::ffff:127.0.0.1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!reaches(address, ""), "{address}");
        }
    }

    #[test]
    fn an_operator_allows_ranges() {
        assert!(reaches("10.1.2.3", "192.168.0.0/16, 10.0.0.0/8"));
        assert!(!reaches("11.1.2.3", "10.0.0.0/8") || reaches("11.1.2.3", ""));
        assert!(reaches("::ffff:127.0.0.1", "127.0.0.1"));
        assert!(!reaches("127.0.0.2", "127.0.0.1"));
        assert!(reaches("fd00::1", "fd00::/8") && !reaches("fe80::1", "fd00::/8"));
        assert!(reaches("10.1.2.3", "0.0.0.0/0") && !reaches("::1", "0.0.0.0/0") && reaches("::1", "::/0"));
        for text in ["10.0.0.0/33", "::/129", "x", "10.0.0/8", "10.0.0.0/-1", "a.example.com"] {
            assert_eq!(networks(text), Err(NotANetwork), "{text}");
        }
        assert_eq!(
            networks("10.0.0.0/8,::1").unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.0/8", "::1/128"]
        );
    }
}
