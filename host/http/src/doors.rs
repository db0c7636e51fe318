//! The doors over HTTP: what they need of the service, their routes, and their answers as responses.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use tidegate_doors::{Answer, BodyMemory, Counted, DoorService, Methods, routes};
use tidegate_model::{Audience, Failure};
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::Access;
use tidegate_service::{Identity, Options};
use tidegate_store::{Ingested, Intake, RequestKey, StoreError};

use crate::app::App;
use crate::auth::{authenticate, authenticate_stored};
use crate::failure::Refusal;
use crate::holding_body::holding;
use crate::middleware::error_status::TrueStatus;
use crate::response::Accounted;

/// Adds the routes at which events come in.
pub(crate) fn add_routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    routes().fold(router, |router, route| {
        // The router copies a handler for each request.
        let (path, methods, route) = (route.path.clone(), route.methods, Arc::new(route));
        let handler = async move |State(app): State<Arc<App>>, request: Request| {
            let mut response = respond(route.answer(app, request).await);
            if route.takes_events() {
                // The events are stored, so no answer is refused for want of memory.
                response.extensions_mut().insert(Accounted);
            }
            response
        };
        let handlers = match methods {
            Methods::Get => get(handler),
            Methods::Post => post(handler),
            Methods::PostOrPut => post(handler.clone()).put(handler),
            Methods::Any => any(handler),
        };
        router.route(&path, handlers)
    })
}

/// The response of an answer.
pub(crate) fn respond(answer: Answer) -> Response {
    let Answer { status, headers, body, trailers, failure, memory } = answer;
    let has_body = failure.is_none() || headers.contains_key(header::CONTENT_TYPE);
    let mut response = match failure {
        // The protocol tells the failure elsewhere; the log and the metrics have the true status.
        Some(failure) if status == StatusCode::OK => {
            let mut response = Response::default();
            let status = StatusCode::from_u16(failure.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            response.extensions_mut().insert(TrueStatus(status));
            response.extensions_mut().insert(failure.code);
            response
        }
        Some(failure) => Refusal(failure).into_response(),
        None => (status, ()).into_response(),
    };
    if has_body {
        response.headers_mut().remove(header::CONTENT_TYPE);
        *response.body_mut() = match trailers {
            Some(trailers) => {
                let frames = [Frame::data(body), Frame::trailers(trailers)].map(Ok::<_, std::convert::Infallible>);
                Body::new(StreamBody::new(stream::iter(frames)))
            }
            None => Body::from(body),
        };
    }
    for (name, value) in &headers {
        response.headers_mut().append(name, value.clone());
    }
    match memory {
        Some(memory) => response.map(|body| holding(body, Arc::new(memory))),
        None => response,
    }
}

#[async_trait]
impl DoorService for App {
    fn options(&self) -> &Options {
        &self.service.options
    }

    fn now(&self) -> i64 {
        self.service.clock.now()
    }

    fn bodies(&self) -> &BodyMemory {
        &self.bodies
    }

    fn access_of(&self, headers: &HeaderMap) -> Result<Arc<Access>, Failure> {
        authenticate(&self.service, headers)
    }

    fn access_of_token(&self, token: &str) -> Result<Arc<Access>, Failure> {
        authenticate_stored(&self.service, token)
    }

    fn limit_rate(&self, sender: Identity) -> Result<(), Failure> {
        Self::limit_rate(self, RequestClass::Ingest, sender)
    }

    fn source_of_settings(&self, named: &str) -> Option<String> {
        self.service.store.source(named).map(|source| source.name)
    }

    fn source_for(&self, sender: &Access, asked: &str) -> Result<String, Failure> {
        self.service.source_for(sender, asked)
    }

    fn intake(&self, source: Option<&str>, bytes: usize, audience: Audience) -> Intake {
        self.service.intake(source, bytes, audience)
    }

    async fn ingest(&self, source: &str, intake: Intake, key: Option<RequestKey>) -> Result<Ingested, StoreError> {
        self.service.ingest_once(source, intake, key).await
    }

    fn count(&self, door: &'static str, counted: Counted<'_>) {
        let metrics = &self.metrics;
        match counted {
            Counted::Ingested(Ingested { stored, refused, unread_times, future_times, early_times }) => {
                metrics.ingested(*stored, refused.len());
                metrics.odd_times(*unread_times, *future_times, *early_times);
                metrics.doors.counted(door, *stored, refused.len());
            }
            Counted::RefusedEvents(count) => {
                metrics.ingested(0, count);
                metrics.doors.counted(door, 0, count);
            }
            Counted::Bytes(bytes) => {
                metrics.ingested_bytes(bytes);
                metrics.doors.bytes(door, bytes);
            }
            Counted::RefusedRequest => metrics.doors.failed(door),
            Counted::NotKept(reason, count) => metrics.syslog.refused(reason, count),
            Counted::RefusedConnection => metrics.syslog.refused_connection(),
        }
    }

    fn count_connection(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(self.metrics.syslog.connection())
    }
}
