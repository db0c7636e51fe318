//! The limit on the connections of one address on which no valid token has been sent.
//!
//! Anybody can open connections, and each takes one of the places that all callers share. So the connections of one
//! address are counted until a request on them has a valid token; from then on the holder of the token is responsible
//! for them. For IPv6, an address here is the network of one subscriber: the first 64 bits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bits of an IPv6 address that identify a subscriber.
const SUBSCRIBER_MASK: u128 = !0 << 64;

/// Counts and limits the connections of each address on which no valid token was seen.
#[derive(Debug)]
pub struct AddressLimits {
    /// The most such connections of one address; 0 means no limit.
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl AddressLimits {
    /// Allows at most `most` connections of each address; 0 means no limit.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection. None if its address has reached the limit.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Arc<AnonymousConnection>> {
        let address = subscriber(address);
        let mut open = self.open();
        let count = open.entry(address).or_default();
        if self.most > 0 && *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Arc::new(AnonymousConnection { addresses: Arc::clone(self), address, known: AtomicBool::new(false) }))
    }

    /// The number of connections of all addresses on which no valid token was seen.
    pub fn anonymous(&self) -> usize {
        self.open().values().sum()
    }
}

/// A connection on which no valid token was seen yet. It counts towards the limit of its address until one is seen or
/// this is dropped.
#[derive(Debug)]
pub struct AnonymousConnection {
    addresses: Arc<AddressLimits>,
    address: IpAddr,
    known: AtomicBool,
}

impl AnonymousConnection {
    /// Whether a valid token was seen.
    pub fn has_token(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// Records that a valid token was seen: the connection does not count any more.
    pub fn is_known(&self) {
        if self.known.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut open = self.addresses.open();
        if let Entry::Occupied(mut count) = open.entry(self.address) {
            *count.get_mut() = count.get().saturating_sub(1);
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Drop for AnonymousConnection {
    fn drop(&mut self) {
        self.is_known();
    }
}

fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & SUBSCRIBER_MASK)),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_places_until_it_is_known_or_gone() {
        let addresses = AddressLimits::new(2);
        let (first, second) = (addresses.enter(ip("192.0.2.1")).unwrap(), addresses.enter(ip("192.0.2.1")).unwrap());
        assert!(addresses.enter(ip("192.0.2.1")).is_none());
        let _other = addresses.enter(ip("192.0.2.2")).unwrap();
        // The connection is subtracted once only, however often a token is seen and also when it is dropped.
        first.is_known();
        first.is_known();
        drop(first);
        assert_eq!(addresses.anonymous(), 2);
        let _third = addresses.enter(ip("192.0.2.1")).unwrap();
        assert!(addresses.enter(ip("192.0.2.1")).is_none());
        drop(second);
        assert!(addresses.enter(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn an_address_is_what_one_subscriber_has() {
        let addresses = AddressLimits::new(1);
        let _v6 = addresses.enter(ip("2001:db8:1:2::3")).unwrap();
        assert!(addresses.enter(ip("2001:db8:1:2:ffff::4")).is_none());
        let _next = addresses.enter(ip("2001:db8:1:3::3")).unwrap();
        let _v4 = addresses.enter(ip("192.0.2.1")).unwrap();
        assert!(addresses.enter(ip("::ffff:192.0.2.1")).is_none(), "the same, as IPv6 writes it");
        assert_eq!(addresses.anonymous(), 3);
    }

    #[test]
    fn none_is_no_limit_and_nothing_is_left_behind() {
        let addresses = AddressLimits::new(0);
        let all: Vec<_> = (0..1_000).map(|_| addresses.enter(ip("::1")).unwrap()).collect();
        assert_eq!(addresses.anonymous(), 1_000);
        drop(all);
        assert!(addresses.open().is_empty());
    }
}
