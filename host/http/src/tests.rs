//! Tests of all routes together: what an answer and a body hold, where a token is found, and what a client who leaves
//! does not interrupt. A response that is kept here is one that its client does not read.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::stream;
use serde_json::{Value, json};
use tidegate_model::Code;
use tidegate_service::catalog::{AlertTable, EndpointTable};
use tidegate_service::{Options, Service};
use tower::ServiceExt;

use crate::app::App;
use crate::routes::router;

const PUBLIC: &str = "a-token-for-ingest-of-all-routes";
const PRIVATE: &str = "a-token-for-everything-of-all-routes";
/// The memory for answers in these tests.
const ROOM: usize = 8 << 20;

struct Running {
    _folder: tempfile::TempDir,
    app: Arc<App>,
    router: Router,
}

impl Running {
    async fn start() -> Self {
        Self::with_room(ROOM).await
    }

    async fn with_room(room: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path().join("data"));
        options.public_token = Some(PUBLIC.to_owned());
        options.private_token = Some(PRIVATE.to_owned());
        options.admission.answer_memory = room;
        options.admission.wait = Duration::from_millis(50);
        let (service, _) = Service::open(options).await.unwrap();
        let app = App::new(service);
        Self { _folder: folder, router: router(Arc::clone(&app)), app }
    }

    async fn send(&self, request: Request) -> Response {
        self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
    }

    async fn get(&self, path: &str, token: &str, coding: &str) -> Response {
        let request = Request::get(path).header(header::ACCEPT_ENCODING, coding);
        let request = if token.is_empty() { request } else { request.header("x-api-key", token) };
        self.send(request.body(Body::empty()).unwrap()).await
    }

    async fn manage(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let response = self.send(managing(method, path, Body::from(body.to_string()))).await;
        let status = response.status();
        (status, serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap_or_default())
    }

    /// What changes of these tests make: the versions of endpoints, and tokens.
    #[expect(clippy::disallowed_methods, reason = "a test looks at what is stored")]
    fn state(&self) -> (Vec<(String, i64)>, usize) {
        let catalog = self.app.service.store.catalog();
        let entries = EndpointTable(catalog).entries().unwrap().into_iter().map(|entry| (entry.name, entry.version));
        (entries.collect(), self.app.service.tokens.records(catalog).unwrap().len())
    }

    fn used(&self) -> usize {
        self.app.service.executor.answers().used()
    }
}

fn managing(method: &str, path: &str, body: Body) -> Request {
    Request::builder().method(method).uri(path).header("x-api-key", PRIVATE).body(body).unwrap()
}

fn is_packed(response: &Response) -> bool {
    response.headers().contains_key(header::CONTENT_ENCODING)
}

#[tokio::test(flavor = "multi_thread")]
async fn compressors_hold_no_more_than_the_half_of_their_token() {
    let running = Running::start().await;
    // An answer of some kilobytes, which is not counted itself.
    let path = "/api/endpoints/logs.all";
    for coding in ["zstd", "br", "gzip"] {
        let mut kept = Vec::new();
        let plain = loop {
            let response = running.get(path, PRIVATE, coding).await;
            assert_eq!(response.status(), 200);
            assert!(running.used() <= ROOM / 2, "{coding}: {}", running.used());
            if !is_packed(&response) {
                break response;
            }
            kept.push(response);
            assert!(kept.len() < 1_000, "{coding}");
        };
        assert!(kept.len() >= 8, "{coding}: {}", kept.len());
        let plain = to_bytes(plain.into_body(), 1 << 20).await.unwrap();
        assert!(serde_json::from_slice::<Value>(&plain).is_ok(), "it is whole without compression");
        drop(kept);
        assert_eq!(running.used(), 0, "{coding}");
        assert!(is_packed(&running.get(path, PRIVATE, coding).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_management_count_for_their_token() {
    let running = Running::start().await;
    let mut kept = Vec::new();
    let refused = loop {
        let response = running.get("/api/openapi", PRIVATE, "identity").await;
        if response.status() != 200 {
            break response;
        }
        kept.push(response);
        assert!(kept.len() < 1_000 && running.used() <= ROOM / 2);
    };
    assert_eq!(
        (refused.status(), refused.extensions().get::<Code>()),
        (StatusCode::TOO_MANY_REQUESTS, Some(&Code::TooManyRequests))
    );
    let whole = running.used();
    let body = to_bytes(kept.pop().unwrap().into_body(), 1 << 20).await.unwrap();
    assert!(serde_json::from_slice::<Value>(&body).is_ok());
    assert_eq!(running.used(), whole, "it is not sent yet");
    drop(body);
    assert!(running.used() < whole);
    drop(kept);
    assert_eq!(running.used(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_refused_before_it_is_made_or_not_at_all() {
    let running = Running::start().await;
    // Its definition is an answer that is counted.
    let endpoint = |name: &str, text: &str| {
        let description = text.repeat(100_000);
        json!({"name": name, "query": "SELECT id FROM `postgres.logs`", "description": description})
    };
    let (status, made) = running.manage("POST", "/api/endpoints", endpoint("all", "a")).await;
    assert_eq!(status, 201, "{made}");
    let (status, made) = running.manage("PATCH", "/api/endpoints/all", json!({"max_limit": 7})).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(running.used(), 0);
    let access = running.app.service.tokens.access(PRIVATE, running.app.service.clock.now()).unwrap();
    let memory = running.app.service.executor.answers().of(access.account());
    let requests = [
        ("POST", "/api/endpoints", endpoint("more", "a")),
        ("PATCH", "/api/endpoints/all", json!({"max_limit": 8})),
        ("POST", "/api/endpoints/all/versions/1/restore", json!({})),
        ("POST", "/api/access-tokens", json!({"scopes": "query", "description": "t".repeat(30_000)})),
    ];
    for (method, path, body) in requests {
        // From hardly any room to enough: at each step the change and the status agree.
        let mut done = false;
        for left in [20 << 10, 60 << 10, 110 << 10, 300 << 10, ROOM / 2] {
            let held = memory.take_now(ROOM / 2 - left).unwrap();
            let before = running.state();
            let (status, answer) = running.manage(method, path, body.clone()).await;
            let changed = running.state() != before;
            assert_eq!(status.is_success(), changed, "{method} {path} with room for {left}: {status} {answer}");
            drop(held);
            if changed {
                done = true;
                break;
            }
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        }
        assert!(done, "{method} {path}");
        assert_eq!(running.used(), 0);
    }
    running.app.service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_change_that_is_longer_than_its_room_is_sent_and_counted() {
    let room = ROOM / 2;
    let running = Running::with_room(room).await;
    let description = "d".repeat(900_000);
    let endpoint = json!({"name": "all", "query": "SELECT id FROM `postgres.logs`", "description": description});
    let (status, made) = running.manage("POST", "/api/endpoints", endpoint).await;
    assert_eq!(status, 201, "{made}");
    let mut kept = Vec::new();
    let refused = loop {
        let patch = json!({"max_limit": kept.len() + 1}).to_string();
        let response = running.send(managing("PATCH", "/api/endpoints/all", Body::from(patch))).await;
        if !response.status().is_success() {
            break response;
        }
        kept.push(response);
        assert!(running.used() > 900_000 * kept.len(), "all of it is counted");
        assert!(kept.len() < 10);
    };
    // The last one needed less than there was, and was longer.
    assert_eq!((kept.len(), refused.status()), (2, StatusCode::TOO_MANY_REQUESTS));
    let version = |(entries, _): (Vec<(String, i64)>, usize)| entries.into_iter().find(|(name, _)| name == "all");
    assert_eq!(version(running.state()), Some(("all".to_owned(), 3)), "what is refused is not made");
    drop(kept);
    assert_eq!(running.used(), 0);
    running.app.service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_a_token_hold_little_and_nothing_of_tokens() {
    let running = Running::start().await;
    let documents: Vec<_> = {
        let mut documents = Vec::new();
        for coding in ["identity", "identity", "gzip", "gzip"] {
            documents.push(to_bytes(running.get("/api/openapi", "", coding).await.into_body(), 1 << 20).await.unwrap());
        }
        documents.iter().map(|document| document.as_ptr()).collect()
    };
    assert!(documents.windows(2).step_by(2).all(|two| two.first() == two.last()), "the bytes are shared");
    let mut kept = Vec::new();
    loop {
        let response = running.get("/metrics", "", "identity").await;
        if response.status() != 200 {
            assert_eq!(response.extensions().get::<Code>(), Some(&Code::Overloaded));
            break;
        }
        kept.push(response);
        assert!(kept.len() < 10_000);
    }
    assert_eq!(running.used(), 0);
    assert_eq!(running.get("/metrics", PRIVATE, "identity").await.status(), 200, "a token has its own memory");
    drop(kept);
    assert_eq!(running.get("/metrics", "", "identity").await.status(), 200);
    assert_eq!(running.app.tokenless_answers.used(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_is_not_called_too_large() {
    let running = Running::start().await;
    for (method, path) in [
        ("POST", "/api/endpoints/query/logs.all"),
        ("POST", "/api/endpoints"),
        ("PUT", "/api/endpoints/logs.all/component"),
    ] {
        let cut = || stream::iter([Ok("{\"a"), Err(io::Error::from(io::ErrorKind::UnexpectedEof))]);
        let response = running.send(managing(method, path, Body::from_stream(cut()))).await;
        assert_eq!(response.extensions().get::<Code>(), Some(&Code::InvalidBody), "{path}");
        let long = Body::from(vec![b' '; (16 << 20) + 1]);
        let response = running.send(managing(method, path, long)).await;
        assert_eq!(response.extensions().get::<Code>(), Some(&Code::TooLarge), "{path}");
    }
    assert_eq!(running.used(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_seen_wherever_a_door_takes_it() {
    let running = Running::start().await;
    let shows = |uri: &str, headers: &[(&'static str, String)]| {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::try_from(value).unwrap()));
        tidegate_doors::shows_token(&*running.app, &HeaderMap::from_iter(headers), &uri.parse().unwrap())
    };
    let pair = BASE64_STANDARD.encode(format!("id:{PUBLIC}"));
    for (name, value) in [
        ("x-api-key", PUBLIC.to_owned()),
        ("authorization", format!("Bearer {PUBLIC}")),
        ("authorization", format!("Splunk {PUBLIC}")),
        ("authorization", format!("Basic {pair}")),
        ("authorization", format!("ApiKey {pair}")),
        ("dd-api-key", PUBLIC.to_owned()),
        ("x-amz-firehose-access-key", PUBLIC.to_owned()),
    ] {
        assert!(shows("/", &[(name, value.clone())]), "{name}: {value}");
        assert!(!shows("/", &[(name, value.replace(PUBLIC, "another").replace(&pair, "aWQ6YQ=="))]), "{name}");
    }
    // What stands in the place of another protocol is not in the way.
    assert!(shows("/", &[("x-amz-firehose-access-key", "x".to_owned()), ("dd-api-key", PUBLIC.to_owned())]));
    assert!(!shows("/", &[]));
    assert!(!shows(&format!("/?api_key={PUBLIC}"), &[]), "only where the settings allow it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_who_leaves_does_not_cut_a_change_of_an_alert_in_half() {
    let running = Running::start().await;
    let endpoint = json!({"name": "all", "query": "SELECT id FROM `postgres.logs`"});
    let (status, made) = running.manage("POST", "/api/endpoints", endpoint).await;
    assert_eq!(status, 201, "{made}");
    let id: uuid::Uuid = made.get("id").and_then(Value::as_str).unwrap().parse().unwrap();
    let alerts = "/api/endpoints/all/alerts";
    let alert = json!({"name": "a", "every_minutes": 1440, "condition": "rows > 100", "url": "http://192.0.2.1/"});
    let (status, made) = running.manage("POST", alerts, alert.clone()).await;
    assert_eq!(status, 201, "{made}");
    #[expect(clippy::disallowed_methods, reason = "a test looks at what is stored")]
    let secret = |name: &str| AlertTable(running.app.service.store.catalog()).secret(id, name).unwrap();
    let first = secret("a");
    assert!(first.is_some());
    // The client leaves after so many steps of its request.
    let leave = async |request: Request, steps: usize| {
        let mut answer = pin!(running.send(request));
        for _ in 0..steps {
            if let Poll::Ready(response) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return response.status().is_success();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    };
    let name = || if secret("b").is_some() { "b" } else { "a" };
    for steps in 1..1_000 {
        let (now, next) = if name() == "a" { ("a", "b") } else { ("b", "a") };
        let renamed = json!({"name": next}).to_string();
        let is_answered = leave(managing("PATCH", &format!("{alerts}/{now}"), Body::from(renamed)), steps).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(secret(name()), first, "{steps} steps");
        if is_answered {
            break;
        }
    }
    let deleted = name();
    for steps in 1..1_000 {
        let before = secret(deleted);
        let is_answered = leave(managing("DELETE", &format!("{alerts}/{deleted}"), Body::empty()), steps).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        if secret(deleted).is_none() {
            let mut again = alert.clone();
            again.as_object_mut().unwrap().insert("name".to_owned(), deleted.into());
            let (status, made) = running.manage("POST", alerts, again).await;
            assert_eq!(status, 201, "{made}");
            assert_ne!(secret(deleted), before, "{steps} steps: the secret of a deleted alert is forgotten");
        }
        if is_answered {
            break;
        }
    }
    running.app.service.close().await.unwrap();
}
