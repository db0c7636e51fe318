//! Ports for what must be named before it listens: a server that is started again, or one that others look for first.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A free port of the loopback, another one at each call.
///
/// It is below those that the system gives away (from 32,768 on), so that neither a connection nor a server of another
/// test takes it in between. Where a server can say itself where it listens, port 0 is better.
pub fn lasting_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two runs at once begin at different places.
    let first = u16::try_from(std::process::id() % 8_000).unwrap();
    std::iter::repeat_with(|| 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed) % 10_000) % 10_000)
        .take(10_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}
