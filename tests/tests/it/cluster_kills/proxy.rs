//! A TCP proxy between a server and a worker, whose connections can be cut or held up: faults of a network that signals to
//! a process cannot make.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A proxy on a port of its own. It ends when it is dropped.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: String,
    shared: Arc<Shared>,
}

struct Shared {
    /// Where the worker listens now.
    target: Mutex<String>,
    /// Both sides of each connection.
    pairs: Mutex<Vec<[TcpStream; 2]>>,
    /// The bytes that workers may still send before all connections end.
    left: AtomicUsize,
    /// Whether bytes are held up, in both directions.
    silent: AtomicBool,
    over: AtomicBool,
}

impl Proxy {
    pub(crate) fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            target: Mutex::new(target.to_owned()),
            pairs: Mutex::default(),
            left: AtomicUsize::new(usize::MAX),
            silent: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.over.load(Ordering::Relaxed) {
                    break;
                }
                // A worker that is gone: the connection ends.
                let Ok(client) = client else { continue };
                let Ok(worker) = TcpStream::connect(&*accepting.target.lock().unwrap()) else { continue };
                accepting.join(client, worker);
            }
        });
        Self { address, shared }
    }

    /// Leads new connections to another address.
    pub(crate) fn lead_to(&self, target: &str) {
        target.clone_into(&mut self.shared.target.lock().unwrap());
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.shared.cut();
    }

    /// Ends all connections once a worker has sent so many bytes more, and those that come later at their first byte.
    pub(crate) fn break_after(&self, bytes: usize) {
        self.shared.left.store(bytes, Ordering::Relaxed);
    }

    /// Holds bytes up, or lets them pass again. Connections stay open.
    pub(crate) fn hold_up(&self, silent: bool) {
        self.shared.silent.store(silent, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.cut();
        // The listener waits for a connection.
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn cut(&self) {
        for stream in self.pairs.lock().unwrap().drain(..).flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn join(self: &Arc<Self>, client: TcpStream, worker: TcpStream) {
        let again = |stream: &TcpStream| stream.try_clone().unwrap();
        for stream in [&client, &worker] {
            stream.set_nodelay(true).unwrap();
        }
        self.pairs.lock().unwrap().push([again(&client), again(&worker)]);
        for (from, to, is_counted) in [(again(&client), again(&worker), false), (worker, client, true)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || shared.copy(from, to, is_counted));
        }
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream, is_counted: bool) {
        let mut bytes = vec![0; 16 << 10];
        while let Ok(read) = from.read(&mut bytes) {
            while self.silent.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let less = |left: usize| (left != usize::MAX).then(|| left.saturating_sub(read));
            if is_counted
                && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok_and(|left| left <= read)
            {
                self.cut();
                break;
            }
            if read == 0 || to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
