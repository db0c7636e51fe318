//! What a coordinator knows of one worker: whether it can be used, and if not, why.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::{Method, StatusCode};

use crate::frames::Chunks;
use crate::link::{Answer, Link};
use crate::messages::{MAX_STATUS, PROTOCOL, Peer, STATUS, WorkerStatus};
use crate::transport::Connect;

/// How often a worker is asked what it is and does.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);
/// How long its answer may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the end of a connection may take after its streams have failed.
const CLOSING_TIME: Duration = Duration::from_millis(100);

/// How many ways there are for a task to end.
const OUTCOMES: usize = 7;

/// How a task of a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of its rows came.
    Done,
    /// Its rows were not wanted any more.
    Left,
    /// The statement failed there.
    Failed,
    /// The worker was gone, or the connection to it broke.
    Gone,
    /// The worker had no room.
    Busy,
    /// What the worker sent could not be understood.
    Nonsense,
    /// What the worker reads of a segment is damaged.
    Damaged,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; OUTCOMES] =
        [Self::Done, Self::Left, Self::Failed, Self::Gone, Self::Busy, Self::Nonsense, Self::Damaged];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Left => "left",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::Busy => "busy",
            Self::Nonsense => "nonsense",
            Self::Damaged => "damaged",
        }
    }
}

/// A worker as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// Its address.
    pub name: Arc<str>,
    /// Why it is not used; `None` if it is.
    pub unusable: Option<String>,
    /// How many tasks ended how, since it is known.
    pub tasks: [(Outcome, u64); OUTCOMES],
}

#[derive(Debug)]
enum State {
    Usable(Link),
    Unusable(String),
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Member {
    name: Arc<str>,
    address: SocketAddr,
    /// The name of the machine, as its certificate has it.
    host: Arc<str>,
    /// The build of this server.
    build: Arc<str>,
    state: Mutex<State>,
    outcomes: [AtomicU64; OUTCOMES],
}

impl Member {
    pub(crate) fn new(address: SocketAddr, host: Arc<str>, build: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            name: address.to_string().into(),
            address,
            host,
            build,
            state: Mutex::new(State::Unusable("it was not asked yet".to_owned())),
            outcomes: Default::default(),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Where it is, for other workers.
    pub(crate) fn peer(&self) -> Peer {
        Peer { address: self.address, host: Arc::clone(&self.host) }
    }

    pub(crate) fn build(&self) -> &str {
        &self.build
    }

    pub(crate) fn view(&self) -> WorkerView {
        let unusable = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Usable(_) => None,
            State::Unusable(why) => Some(why.clone()),
        };
        let count = |outcome| (outcome, self.count(outcome).load(Ordering::Relaxed));
        WorkerView { name: Arc::clone(&self.name), unusable, tasks: Outcome::ALL.map(count) }
    }

    fn count(&self, outcome: Outcome) -> &AtomicU64 {
        let [done, left, failed, gone, busy, nonsense, damaged] = &self.outcomes;
        match outcome {
            Outcome::Done => done,
            Outcome::Left => left,
            Outcome::Failed => failed,
            Outcome::Gone => gone,
            Outcome::Busy => busy,
            Outcome::Nonsense => nonsense,
            Outcome::Damaged => damaged,
        }
    }

    /// Counts a task that ended.
    pub(crate) fn ended(&self, outcome: Outcome) {
        self.count(outcome).fetch_add(1, Ordering::Relaxed);
    }

    /// The connection, if the worker can be used.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn link(&self) -> Result<Link, String> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Usable(link) => Ok(link.clone()),
            State::Unusable(why) => Err(why.clone()),
        }
    }

    fn set(&self, state: State) {
        let mut now = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*now, &state) {
            (State::Unusable(_), State::Usable(_)) => tracing::info!(worker = %self.name, "a worker is used"),
            (State::Usable(_), State::Unusable(why)) => {
                tracing::warn!(worker = %self.name, why, "a worker is not used");
            }
            (State::Unusable(before), State::Unusable(why)) if before != why => {
                tracing::info!(worker = %self.name, why, "a worker is not used");
            }
            _ => {}
        }
        *now = state;
    }

    /// Connects to the worker and asks for its state, again and again.
    pub(crate) async fn watch(self: Arc<Self>, connect: Arc<Connect>) {
        loop {
            match Link::open(self.address, &self.host, &connect).await {
                Ok(link) => {
                    let why = self.ask(link).await;
                    self.set(State::Unusable(why));
                }
                Err(why) => self.set(State::Unusable(format!("it cannot be reached: {why}"))),
            }
            tokio::time::sleep(STATUS_INTERVAL).await;
        }
    }

    /// Asks for the worker's state as long as the connection is good. Tasks keep the connection after that.
    async fn ask(&self, link: Link) -> String {
        loop {
            let status = tokio::time::timeout(STATUS_TIMEOUT, status(&link)).await;
            match status.unwrap_or_else(|_| Err("it does not answer".to_owned())) {
                Ok(status) => self.set(match problem(&status, &self.build) {
                    None => State::Usable(link.clone()),
                    Some(why) => State::Unusable(why),
                }),
                // Where the connection broke, it says more than its streams.
                Err(why) => return tokio::time::timeout(CLOSING_TIME, link.closed()).await.unwrap_or(why),
            }
            tokio::select! {
                () = tokio::time::sleep(STATUS_INTERVAL) => {}
                why = link.closed() => return why,
            }
        }
    }
}

/// Why a worker of this state is not used by a server of this build.
fn problem(status: &WorkerStatus, own: &str) -> Option<String> {
    if status.protocol != PROTOCOL || status.build != own {
        let WorkerStatus { protocol, build, .. } = status;
        return Some(format!("it is of version {build} (protocol {protocol}), this server of {own} ({PROTOCOL})"));
    }
    status.draining.then(|| "it is shutting down".to_owned())
}

async fn status(link: &Link) -> Result<WorkerStatus, String> {
    let (status, mut answer): (StatusCode, Answer) = link.answer(Method::GET, STATUS, None).await?;
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return Err("it has too many connections".to_owned());
    }
    if status != StatusCode::OK {
        return Err(format!("it is no worker: it answers with status {status}"));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.next().await {
        let chunk = chunk?;
        if bytes.len().saturating_add(chunk.len()) > MAX_STATUS {
            return Err("it is no worker: its answer is too long".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = |_| "it is no worker of a version that this server knows".to_owned();
    serde_json::from_slice(&bytes).map_err(text)
}
