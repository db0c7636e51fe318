//! What the tasks of a statement have cost, as their coordinator is told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_distributed::TaskKey;
use tidegate_cluster::stages::RunningTask;

use crate::member::{Member, Outcome};
use crate::messages::CostMessage;

/// What a task has cost so far.
#[derive(Debug, Default)]
pub(crate) struct TaskCost {
    so_far: Mutex<CostMessage>,
    /// How many of its partitions this machine has read to their end.
    ended: AtomicUsize,
    /// Whether it is counted how it ended.
    is_counted: AtomicBool,
}

impl TaskCost {
    pub(crate) fn add(&self, so_far: CostMessage) {
        let mut cost = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        *cost = cost.later(so_far);
    }

    /// Notes the end of a partition, with which the worker tells what the task has cost.
    pub(crate) fn ended(&self, so_far: CostMessage) {
        self.add(so_far);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how it ended, once: whoever reads it may learn that before its start is known.
    pub(crate) fn count(&self, member: &Member, outcome: Outcome) {
        if !self.is_counted.swap(true, Ordering::Relaxed) {
            member.ended(outcome);
        }
    }

    /// Whether nothing more comes of a task of so many partitions.
    pub(crate) fn is_last(&self, partitions: usize) -> bool {
        self.ended.load(Ordering::Relaxed) >= partitions
    }
}

/// What the tasks of a statement have cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskCosts(Arc<Mutex<HashMap<TaskKey, Arc<TaskCost>>>>);

impl TaskCosts {
    /// Of a task.
    pub(crate) fn of(&self, key: TaskKey) -> Arc<TaskCost> {
        Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default())
    }

    /// All of them so far.
    pub(crate) fn tasks(&self) -> Vec<RunningTask> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let task = |(key, cost): (&TaskKey, &Arc<TaskCost>)| {
            let cost = *cost.so_far.lock().unwrap_or_else(PoisonError::into_inner);
            RunningTask {
                stage: key.stage_id,
                task: key.task_number,
                taken: cost.taken(),
                rows_sent: cost.rows_sent,
                cost: cost.cost(),
            }
        };
        tasks.iter().map(task).collect()
    }
}
