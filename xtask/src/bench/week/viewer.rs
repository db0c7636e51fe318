//! Someone who looks at logs while they come in: four questions in turn, one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bench::generator::text;
use crate::bench::http::{Connection, encoded};
use crate::service::PRIVATE;

/// The pause after an answer.
const PAUSE: Duration = Duration::from_millis(30);
const HOUR: i64 = 3_600_000_000;

/// The one who asks, on a thread of its own.
pub(super) struct Viewer {
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<Result<(), String>>,
}

#[derive(Default)]
struct Shared {
    /// The service; none while it is started again.
    url: Option<String>,
    /// The time and the id of the record that was made last.
    at: i64,
    id: String,
    times: Vec<Duration>,
    ended: bool,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Viewer {
    pub(super) fn start(project: &str) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (own, project) = (Arc::clone(&shared), project.to_owned());
        Self { shared, thread: std::thread::spawn(move || ask(&own, &project)) }
    }

    /// Asks this service from now on; none while there is none. A question that is being asked is given up.
    pub(super) fn point(&self, url: Option<String>) {
        lock(&self.shared).url = url;
    }

    /// Says which record was made last.
    pub(super) fn at(&self, at: i64, id: String) {
        let mut shared = lock(&self.shared);
        (shared.at, shared.id) = (at, id);
    }

    /// The median and the 99th percentile in milliseconds since the last call.
    pub(super) fn times(&self) -> [f64; 2] {
        let mut times = std::mem::take(&mut lock(&self.shared).times);
        times.sort_unstable();
        [0.5, 0.99].map(|share| {
            let place = (times.len().saturating_sub(1) as f64 * share).round() as usize;
            times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        })
    }

    /// # Errors
    /// What the service refused.
    pub(super) fn end(self) -> Result<(), String> {
        lock(&self.shared).ended = true;
        self.thread.join().map_err(|_| "the viewer failed")?
    }
}

/// The questions of one page.
fn questions(project: &str, at: i64, id: &str) -> [String; 4] {
    let time = |at: i64| {
        let mut out = Vec::new();
        text::moment(&mut out, at, b' ');
        String::from_utf8_lossy(&out).into_owned()
    };
    let (day, hours) = (time(at - 24 * HOUR), time(at - 6 * HOUR));
    [
        format!(
            "SELECT id, timestamp, event_message FROM edge_logs WHERE project = '{project}' ORDER BY timestamp DESC LIMIT 100"
        ),
        format!(
            "SELECT TIMESTAMP_TRUNC(timestamp, HOUR) AS t, COUNT(*) AS n FROM edge_logs \
             WHERE project = '{project}' AND timestamp > '{day}' GROUP BY t ORDER BY t"
        ),
        format!("SELECT id, event_message FROM edge_logs WHERE id = '{id}'"),
        format!(
            "SELECT COUNT(*) AS n FROM edge_logs WHERE timestamp > '{hours}' AND REGEXP_CONTAINS(event_message, 'DELETE')"
        ),
    ]
}

fn ask(shared: &Mutex<Shared>, project: &str) -> Result<(), String> {
    let mut open: Option<(String, Connection)> = None;
    for turn in (0..4).cycle() {
        std::thread::sleep(PAUSE);
        let (url, at, id) = {
            let shared = lock(shared);
            if shared.ended {
                return Ok(());
            }
            (shared.url.clone(), shared.at, shared.id.clone())
        };
        let Some(url) = url.filter(|_| at > 0) else {
            open = None;
            continue;
        };
        let connection = match &mut open {
            Some((known, connection)) if *known == url => connection,
            _ => &mut open.insert((url.clone(), Connection::open(&url, PRIVATE)?)).1,
        };
        let Some(sql) = questions(project, at, &id).into_iter().nth(turn) else { continue };
        let began = Instant::now();
        let answer = connection.get(&format!("/api/endpoints/query/bench.tables?sql={}", encoded(&sql)));
        let mut shared = lock(shared);
        match answer {
            Ok(answer) => {
                answer.good().map_err(|error| format!("{sql}: {error}"))?;
                shared.times.push(began.elapsed());
            }
            // It was killed in the middle.
            Err(_) if shared.url.as_ref() != Some(&url) => open = None,
            Err(error) => return Err(format!("{sql}: {error}")),
        }
    }
    Ok(())
}
