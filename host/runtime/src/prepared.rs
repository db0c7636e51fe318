//! Components that are ready, by digest: those that were used last, within bounds.
//!
//! Each digest has a slot. The first request for it makes the component ready; others wait at the slot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::endpoint::Endpoint;
use crate::error::RuntimeError;

/// The place for one digest. The first caller fills it, the others wait for it.
#[derive(Default)]
struct Slot {
    endpoint: OnceCell<Arc<Endpoint>>,
    used: AtomicU64,
}

impl Slot {
    fn bytes(&self) -> usize {
        self.endpoint.get().map_or(0, |endpoint| endpoint.bytes)
    }
}

type Slots = HashMap<[u8; 32], Arc<Slot>>;

/// The components that are ready, by digest: the most recently used, within bounds.
pub(crate) struct Prepared {
    slots: Mutex<Slots>,
    most: usize,
    most_bytes: usize,
    clock: AtomicU64,
}

impl Prepared {
    /// A cache of at most `most` components with at most `most_bytes` bytes of compiled code together.
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Self { slots: Mutex::default(), most: most.max(1), most_bytes, clock: AtomicU64::new(0) }
    }

    /// The endpoint with this digest, if it is ready.
    pub(crate) fn ready(&self, digest: &[u8; 32]) -> Option<Arc<Endpoint>> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get(digest)?;
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        slot.endpoint.get().cloned()
    }

    /// The number of ready components and the bytes of their code.
    pub(crate) fn size(&self) -> (usize, usize) {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = slots.values().filter(|slot| slot.endpoint.initialized());
        (ready.count(), slots.values().map(|slot| slot.bytes()).sum())
    }

    /// The endpoint with this digest; `make` makes it if it is not there. A failure is not stored.
    pub(crate) async fn get<F>(&self, digest: [u8; 32], make: F) -> Result<Arc<Endpoint>, RuntimeError>
    where
        F: Future<Output = Result<Arc<Endpoint>, RuntimeError>>,
    {
        let slot = self.slot(digest);
        let endpoint = slot.endpoint.get_or_try_init(|| make).await.cloned();
        drop(slot);
        self.shrink(&digest);
        endpoint
    }

    fn slot(&self, digest: [u8; 32]) -> Arc<Slot> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = Arc::clone(slots.entry(digest).or_default());
        slot.used.store(now, Ordering::Relaxed);
        slot
    }

    /// Removes the least recently used components until the rest is within the bounds, but never the one with the
    /// digest `at_hand`. A component in use stays alive through the endpoints that were handed out. Empty places at
    /// which nobody waits are removed as well.
    fn shrink(&self, at_hand: &[u8; 32]) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| slot.endpoint.initialized() || Arc::strong_count(slot) > 1);
        let ready = |slots: &Slots| slots.values().filter(|slot| slot.endpoint.initialized()).count();
        let mut bytes: usize = slots.values().map(|slot| slot.bytes()).sum();
        while ready(&slots) > self.most || bytes > self.most_bytes {
            let others = slots.iter().filter(|(digest, slot)| *digest != at_hand && slot.endpoint.initialized());
            let Some(oldest) = others.min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed)) else { break };
            let oldest = *oldest.0;
            bytes -= slots.remove(&oldest).map_or(0, |slot| slot.bytes());
        }
    }
}
