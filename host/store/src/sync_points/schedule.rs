//! A schedule: of all threads that take part, one at a time goes on, in an order that a seed decides.
//!
//! A task is a thread of the test with what the store does for it. The flush thread belongs to the one task that asks for
//! flushes and retention, the compaction thread to the one that asks for merges, and the writer thread to whoever has
//! the turn at it. A task that cannot go on, because another one that stands has the lock or the turn, is passed over
//! until some other task has made a step. So the same seed makes the same order.
#![expect(clippy::indexing_slicing, clippy::panic, reason = "only tests have it, and a test that fails may panic")]

use std::{
    cell::RefCell,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

/// The task to which the flush thread belongs.
pub(crate) const FLUSHING: usize = 0;

/// The task to which the compaction thread belongs.
pub(crate) const MERGING: usize = 1;

/// So long may a step take. Longer means that threads wait for each other at a place that is not known here.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many places in vain in a row mean that no task can go on.
const STUCK: usize = 10_000;

thread_local! {
    static ME: RefCell<Option<(Arc<Schedule>, Role)>> = const { RefCell::new(None) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A thread that starts stores and takes no part itself.
    Starter,
    Task(usize),
    Writer,
    /// The writer thread outside of turns.
    Aside,
}

/// A schedule that is used again and again, for the threads of one store.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    state: Mutex<State>,
    next: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tasks: Vec<Task>,
    /// The task that goes on; `None` before the first and after the last step.
    running: Option<usize>,
    /// The task that has the turn at the writer thread.
    writer: Option<usize>,
    random: u64,
    /// Of 100 steps, so many stay with the task that runs.
    steady: u64,
    in_vain: usize,
    /// Something failed: everybody goes on, so that the test ends.
    free: bool,
    steps: Vec<(usize, &'static str)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Task {
    done: bool,
    /// It cannot go on until another one has.
    blocked: bool,
}

impl State {
    fn random(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// Chooses who goes on. `own` is the task that asks.
    fn choose(&mut self, own: usize) {
        let can = |task: &Task| !task.done && !task.blocked;
        if self.tasks.get(own).is_some_and(can) && self.random() % 100 < self.steady {
            self.running = Some(own);
            return;
        }
        let mut ready: Vec<usize> = (0..self.tasks.len()).filter(|task| can(&self.tasks[*task])).collect();
        if ready.is_empty() {
            self.tasks.iter_mut().for_each(|task| task.blocked = false);
            ready = (0..self.tasks.len()).filter(|task| can(&self.tasks[*task])).collect();
        }
        self.running = match ready.len() as u64 {
            0 => None,
            count => Some(ready[(self.random() % count) as usize]),
        };
    }
}

impl Schedule {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores that this thread opens from now on take part.
    pub(crate) fn attach(self: &Arc<Self>) {
        ME.with_borrow_mut(|me| *me = Some((Arc::clone(self), Role::Starter)));
    }

    /// Runs the tasks, each on a thread of its own, one step at a time. Returns the steps that were made.
    pub(crate) fn run(self: &Arc<Self>, seed: u64, tasks: Vec<Box<dyn FnOnce() + Send>>) -> Vec<(usize, &'static str)> {
        {
            let mut state = self.state();
            *state = State {
                tasks: vec![Task::default(); tasks.len()],
                random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                ..State::default()
            };
            for _ in 0..8 {
                state.random();
            }
            state.steady = [0, 30, 60, 85][(state.random() % 4) as usize];
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = tasks
                .into_iter()
                .enumerate()
                .map(|(number, work)| {
                    scope.spawn(move || {
                        ME.with_borrow_mut(|me| *me = Some((Arc::clone(self), Role::Task(number))));
                        let _end = End { schedule: self, number };
                        self.wait(self.state(), number);
                        work();
                    })
                })
                .collect();
            {
                let mut state = self.state();
                state.choose(usize::MAX);
                self.next.notify_all();
            }
            for thread in threads {
                if let Err(panic) = thread.join() {
                    eprintln!("seed {seed}, the last steps: {:?}", self.last_steps());
                    std::panic::resume_unwind(panic);
                }
            }
        });
        std::mem::take(&mut self.state().steps)
    }

    fn last_steps(&self) -> Vec<(usize, &'static str)> {
        let steps = std::mem::take(&mut self.state().steps);
        steps[steps.len().saturating_sub(60)..].to_vec()
    }

    /// Waits until it is this task's turn.
    fn wait(&self, mut state: MutexGuard<'_, State>, task: usize) {
        while state.running != Some(task) && !state.free {
            let (held, late) = self.next.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = held;
            if late.timed_out() && state.running != Some(task) && !state.free {
                state.free = true;
                self.next.notify_all();
                let running = state.running;
                drop(state);
                panic!("task {task} waits for {running:?}, which waits for something that is not known here");
            }
        }
    }

    /// The task has come to a place. Returns when it goes on.
    fn step(&self, task: usize, place: &'static str, is_blocked: bool) {
        let mut state = self.state();
        if state.free || state.running.is_none() {
            return;
        }
        state.steps.push((task, place));
        state.in_vain = if is_blocked { state.in_vain + 1 } else { 0 };
        if state.in_vain > STUCK {
            state.free = true;
            self.next.notify_all();
            drop(state);
            panic!("no task can go on");
        }
        if !is_blocked {
            state.tasks.iter_mut().for_each(|task| task.blocked = false);
        }
        state.tasks[task].blocked = is_blocked;
        state.choose(task);
        if state.running != Some(task) {
            self.next.notify_all();
            self.wait(state, task);
        }
    }
}

/// Ends a task, also one that panics.
struct End<'s> {
    schedule: &'s Schedule,
    number: usize,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.schedule.state();
        state.tasks[self.number].done = true;
        state.tasks.iter_mut().for_each(|task| task.blocked = false);
        state.free |= std::thread::panicking();
        state.choose(usize::MAX);
        self.schedule.next.notify_all();
    }
}

/// The task for which this thread works now, with its schedule.
fn me() -> Option<(Arc<Schedule>, usize)> {
    let (schedule, role) = ME.with_borrow(Option::clone)?;
    let task = match role {
        Role::Task(task) => task,
        Role::Writer => schedule.state().writer?,
        Role::Starter | Role::Aside => return None,
    };
    let runs = {
        let state = schedule.state();
        task < state.tasks.len() && state.running.is_some() && !state.free
    };
    runs.then_some((schedule, task))
}

/// A place at which another task may go on first.
pub(crate) fn reach(place: &'static str) {
    if let Some((schedule, task)) = me() {
        schedule.step(task, place, false);
    }
}

/// Locks what another task may have while it stands. `None` if the thread takes no part.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    reach("long lock");
    while let Some((schedule, task)) = me() {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => schedule.step(task, "long lock is taken", true),
        }
    }
    None
}

/// The turn at the writer thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Schedule>);

pub(super) fn writer_turn() -> Option<Turn> {
    reach("writer");
    while let Some((schedule, task)) = me() {
        let mut state = schedule.state();
        if state.writer.is_none() {
            state.writer = Some(task);
            drop(state);
            return Some(Turn(schedule));
        }
        drop(state);
        schedule.step(task, "writer is taken", true);
    }
    None
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.state().writer = None;
        if !std::thread::panicking() {
            // The writer thread may go on before the one who has the answer does.
            reach("answered");
        }
    }
}

/// What a thread of the store runs that belongs to this task, or is the writer thread.
pub(super) fn thread(task: Option<usize>, run: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let schedule = ME.with_borrow(|me| me.as_ref().map(|(schedule, _)| Arc::clone(schedule)));
    move || {
        let role = task.map_or(Role::Writer, Role::Task);
        ME.with_borrow_mut(|me| *me = schedule.map(|schedule| (schedule, role)));
        run();
    }
}

/// Until it is dropped, this thread takes no part.
pub(super) struct Aside(Option<(Arc<Schedule>, Role)>);

pub(super) fn aside() -> Aside {
    Aside(ME.with_borrow_mut(|me| {
        let was = me.clone();
        if let Some((_, role)) = me {
            *role = Role::Aside;
        }
        was
    }))
}

impl Drop for Aside {
    fn drop(&mut self) {
        ME.with_borrow_mut(|me| *me = self.0.take());
    }
}
