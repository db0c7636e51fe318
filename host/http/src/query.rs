//! The route of queries: one request from its head to its response. What is done with it is the service's to say
//! (`service/src/queries.rs`).

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::answer::Format;
use tidegate_service::cache::Lookup;
use tidegate_service::execution::{RunRecord, limits_of, redaction};
use tidegate_service::follow::{FollowRequest, whole_table};
use tidegate_service::queries::{QueryAnswer, learns_cost};
use tidegate_service::rate::RequestClass;
use tidegate_service::registry::Endpoint;
use tidegate_service::tokens::Access;
use tidegate_sql::StatementCost;

use crate::accept::take_format;
use crate::app::App;
use crate::auth::authenticate;
use crate::cached;
use crate::failure::Refusal;
use crate::follow::{self, FollowParameters, wants_events};
use crate::parameters::QueryBody;
use crate::request_context::note;
use crate::response::{respond, respond_streamed};
use crate::slow_queries::NotedQuery;

/// What the statements of a request cost.
pub(crate) const COST: HeaderName = HeaderName::from_static("x-tidegate-cost");

/// The headers with which a request asks for redaction.
const REDACT_HEADERS: [&str; 2] = ["svc-endpoint-redact-pii", "lf-endpoint-redact-pii"];

/// `GET` and `POST /api/endpoints/query/{id or name}`.
pub(crate) async fn query(
    State(app): State<Arc<App>>,
    Path(id_or_name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let service = &app.service;
    let (now, began) = (service.clock.now(), Instant::now());
    let (head, body) = request.into_parts();
    let events = wants_events(&head.headers);
    if events {
        // Whoever reads events reads no other form of an error than that of its status.
        note(|context| context.format = Some(Format::NdJson));
    }
    let access = authenticate(service, &head.headers)?;
    note(|context| context.errors = access.errors);
    app.limit_rate(RequestClass::Queries, access.identity)?;
    let endpoint = service.endpoints.find(&access, &id_or_name).await?;
    note(|context| {
        context.endpoint = Some(endpoint.manifest.name.to_string());
        context.endpoint_id = Some(endpoint.id);
        context.errors = access.errors.or(endpoint.manifest.settings.errors);
    });
    let account = access.account();
    let mut sent = read_body(service, &endpoint, &access, (&head, body), |arrived| arrived.read()).await?;
    let mut format = take_format(&mut sent.values, &endpoint.manifest, &head.headers)?;
    let mut follow = None;
    if events {
        format = Format::NdJson;
        follow = Some(FollowParameters::take(&mut sent.values, &endpoint.manifest, &head.headers, now)?);
        if sent.adhoc.is_none() {
            sent.adhoc = Some(whole_table(&endpoint)?);
        }
    }
    note(|context| context.format = Some(format));
    let shows_cost = learns_cost(&access);
    let redact = redaction(&endpoint, &access, wants_redaction(&head.headers)?)?;
    let caller = Arc::clone(&access);
    let checked = Arc::new(service.executor.checked(account, endpoint, access, sent, format, redact).await?);
    let record = Arc::<RunRecord>::default();
    let follow = follow.map(|FollowParameters { rows, since, seen }| FollowRequest {
        request: Arc::clone(&checked),
        access: caller,
        arrived: now,
        rows,
        since,
        seen,
    });
    if follow.is_none() {
        let (request, record) = (Arc::clone(&checked), Arc::clone(&record));
        note(|context| context.query = Some(NotedQuery { request, record, arrived: now, answered: None }));
    }
    let answer = service.answer(&checked, now, follow, &record).await;
    note_run(&record);
    if !matches!(answer, Ok(QueryAnswer::Followed(_) | QueryAnswer::Streamed(_))) {
        note(|context| context.query.iter_mut().for_each(|query| query.answered = Some(began.elapsed())));
    }
    let mut response = match answer? {
        QueryAnswer::Followed(follower) => {
            note(|context| context.followed = true);
            return Ok(follow::respond(follower));
        }
        QueryAnswer::Streamed(streamed) => return Ok(cached::bypassed(respond_streamed(streamed))),
        QueryAnswer::Made(encoded) => cached::bypassed(respond(encoded)),
        QueryAnswer::Kept(found) => {
            app.metrics.cache_lookup(found.name());
            note(|context| context.cache = Some(found.name()));
            match found {
                Lookup::Cached(entry, status) => {
                    let versions = head.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
                    cached::respond(&entry, &service.executor.answers().of(account), status, versions).await?
                }
                Lookup::Uncached(answer) => cached::uncacheable(respond(answer)),
            }
        }
    };
    if shows_cost {
        write_cost(record.cost(), response.headers_mut());
    }
    Ok(response)
}

/// What `read` finds in a request. A large body is read with one of the token's permits.
pub(crate) async fn read_body<T: Send + 'static>(
    service: &Service,
    endpoint: &Endpoint,
    access: &Access,
    (head, body): (&Parts, Body),
    read: impl FnOnce(&QueryBody) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (executor, account) = (&service.executor, access.account());
    let memory = executor.answers().of(account);
    let arrived = QueryBody::wait(&head.method, &head.uri, &head.headers, body, &memory).await?;
    if arrived.is_large() {
        let limit = limits_of(executor.limits(), endpoint, access).wall_clock;
        executor.run_with_permit(account, limit, async move { read(&arrived) }).await
    } else {
        read(&arrived)
    }
}

/// Writes what the statements of a request cost into the headers of its answer, if any ran for it.
pub(crate) fn write_cost(cost: StatementCost, headers: &mut HeaderMap) {
    let StatementCost { statements, rows_read, bytes_read, memory, tasks, moves } = cost;
    if statements == 0 {
        return;
    }
    // A dictionary of RFC 9651.
    let mut text = format!("statements={statements}, rows-read={rows_read}, bytes-read={bytes_read}, memory={memory}");
    if tasks > 0 {
        text.push_str(&format!(", tasks={tasks}, moves={moves}"));
    }
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(COST, value);
    }
}

/// Notes the class in which the component ended, if it ran for this request and ended without an answer.
fn note_run(record: &RunRecord) {
    if let Some(class) = record.report().and_then(|report| report.ended) {
        note(|context| context.ended = Some(class));
    }
}

/// Whether the caller asks for redaction, or asks to turn it off. None if it asks for neither.
fn wants_redaction(headers: &HeaderMap) -> Result<Option<bool>, Failure> {
    let mut wants = None;
    for value in REDACT_HEADERS.iter().flat_map(|name| headers.get_all(*name)) {
        let text = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
        match text.as_str() {
            "true" | "1" | "yes" | "on" => wants = Some(true),
            // If two headers contradict each other, the safer one applies.
            "false" | "0" | "no" | "off" | "" => wants = wants.or(Some(false)),
            _ => {
                let message = "the header that asks for redaction is true or false";
                return Err(Failure::new(Code::InvalidParameter, message).about("svc-endpoint-redact-pii"));
            }
        }
    }
    Ok(wants)
}
