//! Running what was asked of an endpoint: its component over its grants, under the limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::response::Response;
use tidegate_compiler::SQL_ARGUMENT;
use tidegate_model::{Arguments, Code, Failure, Limits, Unit, Value, milliseconds};
use tidegate_runtime::{Answer, CallError, Class, Request as Call, Usage};
use tidegate_sql::Stop;
use tracing::Instrument;
use uuid::Uuid;

use crate::admission::{Permit, Tenant};
use crate::answer::{Encoded, Format, Shape, encode, stream};
use crate::app::App;
use crate::observe;
use crate::parameters::Adhoc;
use crate::registry::Endpoint;
use crate::statements::{Language, RequestStatements, Warnings, warn};

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
    /// What it may use: the smallest of what the server, the endpoint and the token allow.
    pub(crate) limits: Limits,
    /// Whose token asks.
    pub(crate) tenant: Tenant,
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

/// What is known of a component's run beside its answer.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// The class in which it ended, if that was without an answer.
    pub(crate) ended: Option<Class>,
    /// What it used, also where it failed.
    pub(crate) usage: Usage,
}

/// How much later than a request's time the wait for it ends: what runs ends by itself, and says
/// what took so long.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
/// The stop's own time is later still, so that it is not the one that words the refusal.
const LAST_WORD: Duration = Duration::from_millis(1100);

/// Stops planning when nobody waits for it.
struct AskOnDrop(Stop);

impl Drop for AskOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// Runs the request and encodes what comes of it, in one of the places of a tenant. Dropping the
/// wait stops it. `arrived` is when the request did, in microseconds since 1970: the only time that a component
/// and its statements learn, so that it does not depend on how long the request waited for its place.
///
/// # Errors
/// Whatever the component, its statements or the limits say.
pub(crate) async fn execute(
    app: Arc<App>,
    asked: Arc<Asked>,
    arrived: i64,
    tenant: Tenant,
) -> Result<Encoded, Failure> {
    execute_telling(app, asked, arrived, tenant, Arc::default()).await
}

/// [`execute`] that tells how the component ran, if it did: `ran` is set before the answer is there.
///
/// # Errors
/// As [`execute`].
pub(crate) async fn execute_telling(
    app: Arc<App>,
    asked: Arc<Asked>,
    arrived: i64,
    tenant: Tenant,
    ran: Arc<OnceLock<Ran>>,
) -> Result<Encoded, Failure> {
    let place = Arc::new(app.admission.enter(tenant).await?);
    let limit = asked.limits.wall_clock;
    let asking = AskOnDrop(Stop::after(limit + LAST_WORD));
    let shape = shape(&asked);
    let made = run(Arc::clone(&app), asked, arrived, asking.0.clone(), Arc::clone(&ran), Arc::clone(&place));
    let share = app.answers.of(tenant);
    // The place goes with the work: work that does not stop at once still takes it.
    let work = app.compute.run_in(place, encode(made, shape, share));
    let encoded = tokio::time::timeout(limit + GRACE, work).await;
    note_class(&ran);
    encoded.unwrap_or_else(|_| Err(late(limit)))
}

/// The failure of a request that ran out of time.
pub(crate) fn late(limit: Duration) -> Failure {
    let limit = Unit::Time.show(milliseconds(limit));
    Failure::new(Code::Timeout, format!("the request took longer than {limit}; narrow the time range or select less"))
}

/// Runs the request and sends its rows as they come.
///
/// # Errors
/// As [`execute`], until the first rows.
pub(crate) async fn execute_streamed(app: &Arc<App>, asked: Arc<Asked>, arrived: i64) -> Result<Response, Failure> {
    let place = Arc::new(app.admission.enter(asked.tenant).await?);
    let limit = asked.limits.wall_clock;
    let asking = AskOnDrop(Stop::after(limit + LAST_WORD));
    let (shape, share) = (shape(&asked), app.answers.of(asked.tenant));
    let ran = Arc::default();
    let made = run(Arc::clone(app), asked, arrived, asking.0.clone(), Arc::clone(&ran), Arc::clone(&place));
    let response = stream(&app.compute, made, shape, share, asking, place, limit).await;
    note_class(&ran);
    response
}

/// Puts the class of a component that did not answer into the line of the request.
fn note_class(ran: &OnceLock<Ran>) {
    if let Some(class) = ran.get().and_then(|ran| ran.ended) {
        observe::note(|notes| notes.ended = Some(class));
    }
}

fn shape(asked: &Asked) -> Shape {
    let most = asked.endpoint.manifest.settings.max_limit;
    let rows = usize::try_from(most).unwrap_or(usize::MAX).min(asked.limits.rows);
    Shape { format: asked.format, rows, bytes: asked.limits.answer_bytes, redact: asked.redact }
}

/// Runs the component; `ran` tells how.
async fn run(
    app: Arc<App>,
    asked: Arc<Asked>,
    arrived: i64,
    stop: Stop,
    ran: Arc<OnceLock<Ran>>,
    place: Arc<Permit>,
) -> Result<Answer, Failure> {
    let endpoint = Arc::clone(&asked.endpoint);
    let rows = shape(&asked).rows;
    let mut passed = asked.arguments.clone();
    let mut language = Language::Sql;
    let component = if let Some(adhoc) = &asked.adhoc {
        let text = match adhoc {
            Adhoc::Sql(text) => text,
            Adhoc::Lql(text) => {
                language = Language::Lql;
                text
            }
        };
        passed = Arguments::from([(SQL_ARGUMENT.to_owned(), Value::Text(text.clone()))]);
        Arc::clone(&app.registry.adhoc)
    } else {
        app.prepared(&endpoint).await.map_err(|failure| unready(endpoint.manifest.name.as_str(), failure))?
    };
    let warnings = Warnings::default();
    let statements = RequestStatements {
        app: Arc::clone(&app),
        asked: Arc::clone(&asked),
        language,
        now: arrived,
        stop,
        rows: rows.saturating_add(1),
        place,
        warnings: Arc::clone(&warnings),
    };
    let call = Call { arguments: passed, received_at: arrived, limits: asked.limits.clone() };
    // Lines that a guest logs say whose they are, and in which request where there is one.
    let (name, mut span) = (endpoint.manifest.name.as_str(), tracing::Span::current());
    if span.is_disabled() {
        span = tracing::error_span!("endpoint", endpoint = name);
    } else {
        span.record("endpoint", name);
    }
    let made = app.runtime.handle(&component, call, Arc::new(statements)).instrument(span).await;
    let (made, how) = match made {
        Ok(mut answer) => {
            let usage = answer.usage;
            warn(&mut answer.notes, &warnings);
            (Ok(answer), Ran { ended: None, usage })
        }
        Err(end) => {
            let CallError { class, failure, usage, detail: _ } = *end;
            (Err(failure), Ran { ended: Some(class), usage })
        }
    };
    app.metrics.component(how.ended);
    let _ = ran.set(how);
    made
}

/// What a caller learns of a component that cannot be made ready: not why. It passed the gate once, so what is
/// wrong is for the operator.
fn unready(endpoint: &str, failure: Failure) -> Failure {
    if failure.code == Code::Overloaded {
        return failure;
    }
    tracing::error!(endpoint, %failure, "a component cannot be made ready");
    Failure::new(Code::Internal, "the endpoint cannot be used now; the server's log has the reason")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_compiler::manifest_of_texts;
    use tidegate_store::NewVersion;

    use super::*;
    use crate::options::Options;
    use crate::parameters::Sent;
    use crate::query::check;
    use crate::tokens::Access;

    #[tokio::test]
    async fn why_a_component_cannot_be_made_ready_is_not_for_its_callers() {
        let folder = tempfile::tempdir().unwrap();
        let (app, _) = App::open(Options::new(folder.path())).await.unwrap();
        let manifest = manifest_of_texts("name = \"junk\"", "SELECT event_message FROM `postgres.logs`").unwrap();
        let record = app.store.catalog().put_endpoint(NewVersion {
            id: Uuid::new_v4(),
            name: "junk",
            manifest: &serde_json::to_string(&manifest).unwrap(),
            component: b"junk",
            component_digest: "00",
            author: "a test",
            sources: &BTreeMap::new(),
        });
        let endpoint = Arc::new(Endpoint::of(record.unwrap(), app.options.limits.text).unwrap());
        assert_eq!(app.prepared(&endpoint).await.unwrap_err().code, Code::Refused);
        let (sent, access) = (Sent::of_object(serde_json::Map::new()).unwrap(), Access::to_all("a test"));
        let asked = Arc::new(check(&app, endpoint, &[], &access, sent, Format::Json, false).unwrap());
        let tenant = asked.tenant;
        let failure = execute(Arc::clone(&app), asked, 0, tenant).await.unwrap_err();
        assert_eq!(failure.code, Code::Internal);
        assert_eq!(failure.message, "the endpoint cannot be used now; the server's log has the reason");

        let busy = Failure::new(Code::Overloaded, "try again later");
        assert_eq!(unready("junk", busy.clone()), busy);
        app.close().await.unwrap();
    }
}
