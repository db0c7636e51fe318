//! Which door is at which path.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Request, Uri};

use crate::answer::Answer;
use crate::body::IncomingBody;
use crate::door::{Door, Methods, Question};
use crate::intake::access_of;
use crate::protocols::bulk_answer::{is_client, question};
use crate::protocols::otlp_signal::other_signal;
use crate::protocols::{DOORS, QUESTIONS};
use crate::receive::receive;
use crate::service::DoorService;

/// A path, and what answers there.
#[derive(Debug, Clone)]
pub struct Route {
    /// The path, with `{NAME}` for a part of it that may be anything.
    pub path: String,
    /// The methods.
    pub methods: Methods,
    to: To,
}

/// What answers.
#[derive(Debug, Clone, Copy)]
enum To {
    Door(&'static dyn Door),
    OtherSignal,
    Question(Question),
}

/// All routes of the doors.
pub fn routes() -> impl Iterator<Item = Route> {
    let doors = DOORS.iter().flat_map(|door| {
        let profile = door.profile();
        let methods = if profile.takes_put { Methods::PostOrPut } else { Methods::Post };
        profile.paths.iter().map(move |path| Route { path: (*path).to_owned(), methods, to: To::Door(*door) })
    });
    let signals = ["/v1/traces", "/v1/metrics"];
    let signals = signals.map(|path| Route { path: path.to_owned(), methods: Methods::Post, to: To::OtherSignal });
    let questions = QUESTIONS.iter().flat_map(|(methods, prefix, paths, answer)| {
        let route = move |path| Route { path: format!("{prefix}{path}"), methods: *methods, to: To::Question(*answer) };
        paths.iter().map(route)
    });
    doors.chain(signals).chain(questions)
}

impl Route {
    /// Whether events come in there.
    pub fn takes_events(&self) -> bool {
        matches!(self.to, To::Door(_))
    }

    /// Answers a request.
    pub async fn answer(&self, service: Arc<dyn DoorService>, request: Request<impl IncomingBody>) -> Answer {
        let (head, body) = request.into_parts();
        match self.to {
            To::Door(door) => receive(service, door, head, body).await,
            To::OtherSignal => other_signal(&*service, &head, body).await,
            To::Question(question) => question(&*service, &head),
        }
    }
}

/// The answer at `/` to clients of Elasticsearch. None for a request of another.
pub fn start(service: &dyn DoorService, head: &Parts) -> Option<Answer> {
    is_client(&head.headers).then(|| question(service, head))
}

/// Whether a request shows a valid token, in a place where any route or any door takes it.
pub fn shows_token(service: &dyn DoorService, headers: &HeaderMap, uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default().as_bytes();
    let in_query = form_urlencoded::parse(query).filter(|(name, _)| name == "api_key").last().map(|(_, key)| key);
    let shows = |keys| access_of(service, headers, in_query.as_deref(), keys).is_ok();
    // Each protocol by itself, because one that looks at the places of another might find something else there.
    shows(&[]) || DOORS.iter().map(|door| door.profile().keys).filter(|keys| !keys.is_empty()).any(shows)
}
