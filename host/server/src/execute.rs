//! Running what was asked of an endpoint: its component over its grants, under the limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::response::Response;
use tidegate_compiler::SQL_ARGUMENT;
use tidegate_model::{Arguments, Code, Failure, Value};
use tidegate_runtime::{Body, Class, Request as Call};
use tidegate_sql::Stop;
use uuid::Uuid;

use crate::answer::{Encoded, Format, Shape, encode, stream};
use crate::app::App;
use crate::observe;
use crate::parameters::Adhoc;
use crate::registry::Endpoint;
use crate::statements::{Language, RequestStatements};

/// What is asked of an endpoint; authenticated and checked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) endpoint: Arc<Endpoint>,
    /// What the answer can depend on, and nothing else: the declared parameters, and those that the
    /// ad-hoc text uses.
    pub(crate) arguments: Arguments,
    /// What the token fixes; a component cannot choose otherwise either.
    pub(crate) pinned: BTreeMap<String, String>,
    pub(crate) adhoc: Option<Adhoc>,
    /// The ad-hoc text reads the sources instead of the grants; the token allows it.
    pub(crate) unrestricted: bool,
    /// The endpoints that this one reads as tables, with their versions.
    pub(crate) reads: Vec<(Uuid, i64)>,
    pub(crate) redact: bool,
    pub(crate) format: Format,
}

impl Asked {
    /// Roughly the bytes that this holds.
    pub(crate) fn bytes(&self) -> usize {
        let of = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let arguments: usize = self.arguments.iter().map(|(name, value)| name.len() + of(value) + 64).sum();
        let pinned: usize = self.pinned.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        let adhoc = match &self.adhoc {
            Some(Adhoc::Sql(text) | Adhoc::Lql(text)) => text.len(),
            None => 0,
        };
        arguments + pinned + adhoc
    }
}

/// Stops planning when nobody waits for it.
struct AskOnDrop(Stop);

impl Drop for AskOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// Runs the request and encodes what comes of it. Dropping the wait stops it.
///
/// # Errors
/// Whatever the component, its statements or the limits say.
pub(crate) async fn execute(app: Arc<App>, asked: Arc<Asked>) -> Result<Encoded, Failure> {
    let permit = app.admission.enter().await?;
    let (limit, asking) = time_limit(&app);
    let shape = shape(&app, &asked);
    let ended = Arc::new(OnceLock::new());
    let made = run(Arc::clone(&app), asked, asking.0.clone(), Arc::clone(&ended));
    // The place goes with the work: work that does not stop at once still takes it.
    let work = app.compute.run(async move {
        let _permit = permit;
        encode(made, shape).await
    });
    let encoded = tokio::time::timeout(limit, work).await;
    note_class(&ended);
    encoded.unwrap_or_else(|_| {
        let message = format!(
            "the request took longer than {} s; narrow the time range or select less",
            app.options.limits.wall_clock.as_secs()
        );
        Err(Failure::new(Code::Timeout, message))
    })
}

/// Runs the request and sends its rows as they come.
///
/// # Errors
/// As [`execute`], until the first rows.
pub(crate) async fn execute_streamed(app: &Arc<App>, asked: Arc<Asked>) -> Result<Response, Failure> {
    let permit = app.admission.enter().await?;
    let (limit, asking) = time_limit(app);
    let shape = shape(app, &asked);
    let ended = Arc::new(OnceLock::new());
    let made = run(Arc::clone(app), asked, asking.0.clone(), Arc::clone(&ended));
    let response = stream(&app.compute, made, shape, asking, permit, limit).await;
    note_class(&ended);
    response
}

/// Puts the class of a component that did not answer into the line of the request.
fn note_class(ended: &OnceLock<Class>) {
    if let Some(class) = ended.get() {
        observe::note(|notes| notes.ended = Some(*class));
    }
}

/// The time of a request, and what stops it: both end with the future that waits, when the time is
/// over or when the caller hangs up.
fn time_limit(app: &App) -> (Duration, AskOnDrop) {
    let limit = app.options.limits.wall_clock + Duration::from_millis(100);
    // The stop's own time is later, so that it is not the one that words the refusal.
    (limit, AskOnDrop(Stop::after(limit + Duration::from_secs(1))))
}

fn shape(app: &App, asked: &Asked) -> Shape {
    let most = asked.endpoint.manifest.settings.max_limit;
    let rows = usize::try_from(most).unwrap_or(usize::MAX).min(app.options.limits.rows);
    Shape { format: asked.format, rows, bytes: app.options.limits.answer_bytes, redact: asked.redact }
}

/// Runs the component; `ended` is the class in which it ended, if that is without an answer.
async fn run(app: Arc<App>, asked: Arc<Asked>, stop: Stop, ended: Arc<OnceLock<Class>>) -> Result<Body, Failure> {
    let now = chrono::Utc::now().timestamp_micros();
    let endpoint = Arc::clone(&asked.endpoint);
    let rows = shape(&app, &asked).rows;
    let mut component = Arc::clone(&endpoint.component);
    let mut passed = asked.arguments.clone();
    let mut language = Language::Sql;
    if let Some(adhoc) = &asked.adhoc {
        component = Arc::clone(&app.registry.adhoc);
        let text = match adhoc {
            Adhoc::Sql(text) => text,
            Adhoc::Lql(text) => {
                language = Language::Lql;
                text
            }
        };
        passed = Arguments::from([(SQL_ARGUMENT.to_owned(), Value::Text(text.clone()))]);
    }
    let statements = RequestStatements {
        app: Arc::clone(&app),
        asked: Arc::clone(&asked),
        language,
        now,
        stop,
        rows: rows.saturating_add(1),
    };
    let limits = app.options.limits.clone();
    let call = Call { arguments: passed, received_at: now, limits };
    match app.runtime.handle(&component, call, Arc::new(statements)).await {
        Ok(answer) => {
            app.metrics.component(None);
            Ok(answer.body)
        }
        Err(end) => {
            app.metrics.component(Some(end.class));
            let _ = ended.set(end.class);
            Err(end.failure)
        }
    }
}
