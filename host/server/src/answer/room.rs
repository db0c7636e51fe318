//! The room for encoded answers: what is made and not yet taken by its reader.
//!
//! A reader may take its answer slowly, so answers stay in memory for as long as their readers like, within
//! the least rate. What all of them hold is bounded here. Bytes are counted from before they are encoded until
//! the last of their copies is dropped, wherever they wait: in a body, in the buffers of a connection or of a
//! stream of HTTP/2. Bytes that several answers share are counted once.
//!
//! One token takes half of the room at most, so that slow readers of one leave the others theirs. Who finds no
//! room waits a short time for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_model::{Code, Failure, Unit, number};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::admission::{Tenant, half};

/// The room for all answers of a service.
#[derive(Debug, Clone)]
pub(crate) struct AnswerRoom(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Bytes.
    most: usize,
    wait: Duration,
    state: Mutex<State>,
    /// Something was given back.
    freed: Notify,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// What each tenant holds; those that hold nothing are not in it.
    shares: HashMap<Tenant, usize>,
}

/// What there is no room in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    All,
    Share,
}

impl AnswerRoom {
    /// Room for so many bytes; who finds none waits for so long.
    pub(crate) fn new(bytes: usize, wait: Duration) -> Self {
        let (state, freed, refused) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Self(Arc::new(Inner { most: bytes, wait, state, freed, refused }))
    }

    /// The room as one tenant may use it.
    pub(crate) fn of(&self, tenant: Tenant) -> Share {
        Share { room: Arc::clone(&self.0), tenant }
    }

    /// Bytes that are taken.
    pub(crate) fn used(&self) -> usize {
        self.0.state().used
    }

    /// Answers that found no room, since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room as one tenant may use it.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    room: Arc<Inner>,
    tenant: Tenant,
}

impl Share {
    /// Room for so many bytes, at once or after a short wait.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] where the tenant's half is full, [`Code::Overloaded`] where all of it is.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Held, Failure> {
        let deadline = Instant::now() + self.room.wait;
        match timeout_at(deadline, self.wait(bytes)).await {
            Ok(held) => Ok(held),
            Err(_) => match self.try_take(bytes) {
                Ok(held) => Ok(held),
                Err(full) => Err(self.refusal(full)),
            },
        }
    }

    /// Room for so many bytes, however long it takes. For who ends in its time anyway.
    pub(crate) async fn wait(&self, bytes: usize) -> Held {
        loop {
            // Asked for before it is looked, so that what is given back in between is not missed.
            let mut freed = pin!(self.room.freed.notified());
            freed.as_mut().enable();
            if let Ok(held) = self.try_take(bytes) {
                return held;
            }
            freed.await;
        }
    }

    fn try_take(&self, bytes: usize) -> Result<Held, Full> {
        let mut state = self.room.state();
        let own = state.shares.get(&self.tenant).copied().unwrap_or(0);
        if bytes > 0 && state.used.saturating_add(bytes) > self.room.most {
            return Err(Full::All);
        }
        if bytes > 0 && own.saturating_add(bytes) > half(self.room.most) {
            return Err(Full::Share);
        }
        state.add(self.tenant, bytes);
        drop(state);
        Ok(Held { share: self.clone(), bytes })
    }

    /// Counts bytes that are there already, whether there is room for them or not. Only for what is small: there
    /// is less room for others then.
    pub(crate) fn note(&self, bytes: usize) -> Held {
        self.room.state().add(self.tenant, bytes);
        Held { share: self.clone(), bytes }
    }

    fn refusal(&self, full: Full) -> Failure {
        self.room.refused.fetch_add(1, Ordering::Relaxed);
        let bytes = |n: usize| Unit::Bytes.show(number(n));
        let (code, message) = match full {
            Full::All => {
                let most = bytes(self.room.most);
                let message =
                    format!("the answers that are not yet read hold {most}, which is the most; try again later");
                (Code::Overloaded, message)
            }
            Full::Share => {
                let most = bytes(half(self.room.most));
                let message = format!(
                    "the answers for the access token that are not yet read hold {most}, which is the most for one \
                     token; read them, or try again later"
                );
                (Code::TooManyRequests, message)
            }
        };
        Failure::new(code, message).retry_after(1)
    }
}

impl State {
    fn add(&mut self, tenant: Tenant, bytes: usize) {
        if bytes > 0 {
            self.used = self.used.saturating_add(bytes);
            let own = self.shares.entry(tenant).or_default();
            *own = own.saturating_add(bytes);
        }
    }

    fn give_back(&mut self, tenant: Tenant, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        if let Entry::Occupied(mut own) = self.shares.entry(tenant) {
            *own.get_mut() = own.get().saturating_sub(bytes);
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// A part of the room, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    share: Share,
    bytes: usize,
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts two parts of one tenant together.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
    }

    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let more = self.bytes.saturating_sub(bytes);
        if more > 0 {
            self.bytes = bytes;
            self.share.room.state().give_back(self.share.tenant, more);
            self.share.room.freed.notify_waiters();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// Bytes with their part of the room.
struct Counted {
    bytes: Bytes,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that hold a part of the room until the last of their copies and slices is dropped.
pub(crate) fn counted(bytes: Bytes, held: Arc<Held>) -> Bytes {
    Bytes::from_owner(Counted { bytes, _held: held })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const A: Tenant = Tenant::Token([1; 32]);
    const B: Tenant = Tenant::Token([2; 32]);
    const C: Tenant = Tenant::Token([3; 32]);

    fn room() -> AnswerRoom {
        AnswerRoom::new(100, Duration::from_millis(20))
    }

    #[tokio::test]
    async fn a_token_takes_half_and_all_of_them_the_whole() {
        let room = room();
        let first = room.of(A).take(50).await.unwrap();
        let failure = room.of(A).take(1).await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::TooManyRequests, Some(1)));
        let _second = room.of(B).take(50).await.unwrap();
        assert_eq!(room.of(C).take(1).await.unwrap_err().code, Code::Overloaded);
        assert_eq!((room.used(), room.refused()), (100, 2));
        // Nothing needs no room.
        assert_eq!(room.of(C).take(0).await.unwrap().bytes(), 0);
        drop(first);
        let _third = room.of(C).take(50).await.unwrap();
        assert_eq!(room.used(), 100);
    }

    #[tokio::test]
    async fn what_is_given_back_goes_to_who_waits() {
        let room = AnswerRoom::new(100, Duration::from_secs(60));
        let mut first = room.of(A).take(50).await.unwrap();
        let waiting = tokio::spawn({
            let share = room.of(A);
            async move { share.take(20).await.unwrap().bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.shrink(30);
        assert_eq!(waiting.await.unwrap(), 20);
        assert_eq!(room.used(), 30);
    }

    #[tokio::test]
    async fn bytes_are_counted_until_the_last_slice_is_gone_and_shared_ones_once() {
        let room = room();
        let mut held = room.of(A).take(10).await.unwrap();
        held.join(room.of(A).note(80));
        assert_eq!(room.used(), 90, "what is there is counted beyond the half");
        held.shrink(40);
        let held = Arc::new(held);
        let one = counted(Bytes::from_static(&[1; 40]), Arc::clone(&held));
        let mut other = counted(Bytes::from_static(&[1; 40]), held);
        let slice = other.split_to(3);
        drop((one, other));
        assert_eq!((room.used(), &*slice), (40, &[1, 1, 1][..]));
        drop(slice);
        assert_eq!(room.used(), 0);
        assert!(room.0.state().shares.is_empty());
    }
}
