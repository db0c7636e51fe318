//! The tasks of stages of a worker, by their keys: a reader may ask for one before it is there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion_distributed::TaskKey;
use tokio::sync::watch;

use crate::worker_failure::WorkerFailure;

/// How long a reader waits for a task that nobody sent yet.
const WAIT: Duration = Duration::from_secs(10);
/// Tasks that are there or waited for. Each reader of one that never comes could add another.
const MAX_SLOTS: usize = 1 << 14;

type Slot<T> = Option<Result<Arc<T>, WorkerFailure>>;

/// Tasks, and those that are waited for.
#[derive(Debug)]
pub struct TaskSlots<T> {
    slots: Mutex<HashMap<TaskKey, watch::Sender<Slot<T>>>>,
    wait: Duration,
}

impl<T> Default for TaskSlots<T> {
    fn default() -> Self {
        Self { slots: Mutex::default(), wait: WAIT }
    }
}

impl<T> TaskSlots<T> {
    fn slots(&self) -> MutexGuard<'_, HashMap<TaskKey, watch::Sender<Slot<T>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of a task, which is there as long as somebody has its receiver or its task is there.
    fn slot(
        slots: &mut HashMap<TaskKey, watch::Sender<Slot<T>>>,
        key: TaskKey,
    ) -> Result<&watch::Sender<Slot<T>>, WorkerFailure> {
        let count = slots.len();
        match slots.entry(key) {
            Entry::Occupied(slot) => Ok(slot.into_mut()),
            Entry::Vacant(_) if count >= MAX_SLOTS => Err(WorkerFailure::Busy("it has too many tasks".to_owned())),
            Entry::Vacant(slot) => Ok(slot.insert(watch::Sender::new(None))),
        }
    }

    /// Puts a task in, or why it is not there. Only the first counts.
    ///
    /// # Errors
    /// If there are too many tasks, or it is there already.
    pub fn put(&self, key: TaskKey, task: Result<Arc<T>, WorkerFailure>) -> Result<(), WorkerFailure> {
        let mut slots = self.slots();
        // While nobody can take the slot away.
        let is_first = Self::slot(&mut slots, key)?.send_if_modified(|there| {
            let is_first = there.is_none();
            there.get_or_insert(task);
            is_first
        });
        if is_first { Ok(()) } else { Err(WorkerFailure::Nonsense("the task was sent twice".to_owned())) }
    }

    /// Takes a task out: who waits for it learns that it is gone.
    pub fn remove(&self, key: TaskKey) {
        self.slots().remove(&key);
    }

    /// How many there are, those that are waited for included.
    pub fn len(&self) -> usize {
        self.slots().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A task, as soon as it is there.
    ///
    /// # Errors
    /// If it was refused, is gone, or does not come.
    pub async fn get(&self, key: TaskKey) -> Result<Arc<T>, WorkerFailure> {
        let gone = || WorkerFailure::Gone("the task is not there".to_owned());
        // It goes after the receiver, also of a reader that does not wait any more.
        let _unsent = Unsent { slots: self, key };
        let mut slot = Self::slot(&mut self.slots(), key)?.subscribe();
        let there = tokio::time::timeout(self.wait, slot.wait_for(Option::is_some)).await;
        let there = there.ok().and_then(Result::ok).and_then(|there| there.clone());
        there.unwrap_or_else(|| Err(gone()))
    }
}

/// Takes the slot of a task that nobody sent away with its last reader.
struct Unsent<'s, T> {
    slots: &'s TaskSlots<T>,
    key: TaskKey,
}

impl<T> Drop for Unsent<'_, T> {
    fn drop(&mut self) {
        let mut slots = self.slots.slots();
        if slots.get(&self.key).is_some_and(|slot| slot.borrow().is_none() && slot.receiver_count() == 0) {
            slots.remove(&self.key);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn key(task_number: usize) -> TaskKey {
        TaskKey { query_id: Uuid::nil(), stage_id: 1, task_number }
    }

    #[tokio::test]
    async fn a_task_may_be_asked_for_before_it_is_there() {
        let wait = Duration::from_millis(20);
        let slots = Arc::new(TaskSlots::<u8> { wait, ..TaskSlots::default() });
        let asked = Arc::clone(&slots);
        let early = tokio::spawn(async move { asked.get(key(1)).await });
        tokio::task::yield_now().await;
        slots.put(key(1), Ok(Arc::new(7))).unwrap();
        assert_eq!(*early.await.unwrap().unwrap(), 7);
        assert!(slots.put(key(1), Ok(Arc::new(8))).is_err());
        slots.put(key(2), Err(WorkerFailure::Busy("full".to_owned()))).unwrap();
        assert_eq!(slots.get(key(2)).await.unwrap_err(), WorkerFailure::Busy("full".to_owned()));
        slots.remove(key(1));
        slots.remove(key(2));
        // One that never comes is waited for some time, and leaves nothing.
        assert!(matches!(slots.get(key(3)).await, Err(WorkerFailure::Gone(_))));
        assert!(slots.is_empty());
        // Nor does one whose reader goes.
        let waits = TaskSlots::<u8>::default();
        assert!(tokio::time::timeout(Duration::from_millis(1), waits.get(key(4))).await.is_err());
        assert!(waits.is_empty());
    }
}
