//! The memory budget for the bodies of ingest requests, and for the events made of them until they are stored.
//!
//! A sender may send its body slowly, down to the least rate, and what has come stays in memory until then. One token
//! gets at most half of the budget, so that its slow bodies leave the other half to other senders. Of the turns in which
//! large bodies are split into events, it gets half as well, and stands in the common line for no more than that.

use std::sync::Arc;

use tidegate_model::{Code, Failure};
use tidegate_service::{Account, FairShare, Identity, Permits, Share, UsedUp};
use tokio::sync::Semaphore;

/// How many bytes one permit of the semaphore stands for.
pub(crate) const PERMIT: usize = 4 << 10;

/// How many large bodies are split into events at once: one per core, within this range. Each of these threads holds
/// one event at a time as a parsed tree, which takes up to a hundred times the bytes of the event; more threads than
/// cores would only hold more trees.
const TURNS: std::ops::RangeInclusive<usize> = 1..=8;

/// The memory budget for all bodies that are being read or stored, as all may use it or the holder of one token; clones
/// share it.
#[derive(Debug, Clone)]
pub struct BodyMemory {
    budget: Arc<Budget>,
    permits: Arc<Share>,
    turns: Arc<Share>,
}

#[derive(Debug)]
struct Budget {
    permits: FairShare,
    turns: FairShare,
}

impl BodyMemory {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let most = (bytes / PERMIT).clamp(1, Semaphore::MAX_PERMITS);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_turns(most, cores.clamp(*TURNS.start(), *TURNS.end()))
    }

    fn with_turns(most: usize, turns: usize) -> Self {
        let budget = Budget { permits: FairShare::new(most), turns: FairShare::new(turns) };
        Self { permits: budget.permits.whole(()), turns: budget.turns.whole(()), budget: Arc::new(budget) }
    }

    /// The same budget as the holder of a token may use it.
    pub(crate) fn of(&self, token: Identity) -> Self {
        let (budget, account) = (Arc::clone(&self.budget), Account::Token(token));
        Self { permits: budget.permits.of(account, || ()), turns: budget.turns.of(account, || ()), budget }
    }

    /// Waits for a turn to split a large body into events. Dropping it lets the next request go on.
    pub(crate) async fn turn(&self) -> Option<Permits> {
        self.budget.turns.take(&self.turns).await.ok()
    }

    /// An empty reservation.
    pub(crate) fn reservation(&self) -> BodyReservation {
        BodyReservation { memory: self.clone(), held: None }
    }

    /// How many bytes are reserved of the whole budget.
    pub fn used(&self) -> usize {
        self.budget.permits.held() * PERMIT
    }

    /// Takes permits, at once or not at all.
    fn take(&self, count: u32) -> Result<Permits, Failure> {
        self.budget.permits.try_take(&self.permits, count).map_err(|used_up| {
            let what = match used_up {
                UsedUp::Share => "of this token arrive",
                UsedUp::All => "arrive",
            };
            let message =
                format!("too many bytes of logs {what} at once; nothing of the request was stored, try again");
            Failure::new(Code::TooManyRequests, message)
        })
    }
}

/// The bytes that one request has reserved. They are released when this is dropped.
#[derive(Debug)]
pub struct BodyReservation {
    memory: BodyMemory,
    held: Option<Permits>,
}

impl BodyReservation {
    /// Takes so many of the reserved bytes out, as a reservation of its own.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let count = bytes.div_ceil(PERMIT).min(self.held.as_ref().map_or(0, Permits::count));
        Self { memory: self.memory.clone(), held: self.held.as_mut().and_then(|held| held.split(count)) }
    }

    /// Sets how many bytes the request holds from now on. A request that needs more than all that it may have reserves that
    /// and continues.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] when all requests together, or those of its token, hold too much memory.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let wanted = bytes.div_ceil(PERMIT).min(self.memory.permits.most());
        let held = self.held.as_ref().map_or(0, Permits::count);
        if wanted < held {
            // The permits that are split off are dropped, which releases them.
            drop(self.held.as_mut().and_then(|held_now| held_now.split(held - wanted)));
            return Ok(());
        }
        let Some(missing) = u32::try_from(wanted - held).ok().filter(|count| *count > 0) else { return Ok(()) };
        let more = self.memory.take(missing)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_half_and_returns_what_it_held() {
        let memory = BodyMemory::new(8 * PERMIT);
        let (greedy, other) = (memory.of([1; 32]), memory.of([2; 32]));
        let mut held: Vec<BodyReservation> = (0..4).map(|_| greedy.reservation()).collect();
        held.iter_mut().for_each(|one| one.hold(PERMIT).unwrap());
        // Also where the share is asked for anew.
        let refused = memory.of([1; 32]).reservation().hold(1).unwrap_err();
        assert!(refused.message.contains("of this token"), "{refused}");
        let mut others = other.reservation();
        others.hold(3 * PERMIT).unwrap();
        assert_eq!(memory.used(), 7 * PERMIT);
        let part = others.split(2 * PERMIT);
        drop(others);
        assert_eq!(memory.used(), 6 * PERMIT);
        drop((part, held));
        assert_eq!(memory.used(), 0);
        // One that needs more than its share has all of it, and goes on.
        let mut large = greedy.reservation();
        large.hold(100 * PERMIT).unwrap();
        assert_eq!(memory.used(), 4 * PERMIT);
        large.hold(0).unwrap();
    }

    #[tokio::test]
    async fn many_bodies_of_one_token_do_not_stand_before_those_of_others() {
        for (turns, half) in [(1, 1), (2, 1), (8, 4)] {
            let memory = BodyMemory::with_turns(8, turns);
            let waiting = |token: Identity| {
                let memory = memory.of(token);
                tokio::spawn(async move { memory.turn().await })
            };
            let greedy: Vec<_> = (0..20).map(|_| waiting([1; 32])).collect();
            while memory.budget.turns.free() > turns - half {
                tokio::task::yield_now().await;
            }
            let other = waiting([2; 32]);
            if turns == half {
                // There is one turn, and another body of the token may be next in line, but not all of them.
                tokio::task::yield_now().await;
                let mut greedy = greedy.into_iter();
                drop(greedy.next().unwrap().await.unwrap());
                drop(other.await.unwrap());
                assert!(greedy.filter(|task| !task.is_finished()).count() >= 18);
            } else {
                drop(other.await.unwrap());
                tokio::task::yield_now().await;
                assert_eq!(greedy.iter().filter(|task| task.is_finished()).count(), half);
            }
        }
    }

    #[test]
    fn all_tokens_together_have_the_whole_budget() {
        let memory = BodyMemory::new(8 * PERMIT);
        let mut held: Vec<BodyReservation> = (0..2).map(|token| memory.of([token; 32]).reservation()).collect();
        held.iter_mut().for_each(|one| one.hold(4 * PERMIT).unwrap());
        let third = memory.of([9; 32]);
        let refused = third.reservation().hold(1).unwrap_err();
        assert!(!refused.message.contains("of this token"), "{refused}");
        drop(held);
        third.reservation().hold(4 * PERMIT).unwrap();
    }
}
