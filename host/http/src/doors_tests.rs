//! Tests of behaviour that depends on settings. The black-box tests run with the default settings.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::{Value, json};
use tidegate_model::Code;
use tidegate_service::{Options, Service};
use tower::ServiceExt;

use crate::app::App;
use crate::routes::router;

const TOKEN: &str = "a-token-for-ingest-of-the-doors";

async fn app(change: impl FnOnce(&mut Options)) -> (tempfile::TempDir, Arc<App>) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new(folder.path().join("data"));
    options.public_token = Some(TOKEN.to_owned());
    options.private_token = Some(TOKEN.replace("ingest", "everything"));
    change(&mut options);
    let (service, _) = Service::open(options).await.unwrap();
    (folder, App::new(service))
}

async fn send(app: &Arc<App>, query: &str, body: impl Into<Body>) -> Result<Value, Code> {
    let request = Request::post(format!("/api/logs?source_name=postgres.logs&{query}")).body(body.into()).unwrap();
    let response = router(Arc::clone(app)).oneshot(request).await.unwrap();
    match response.extensions().get::<Code>() {
        Some(code) => Err(*code),
        None => Ok(serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_query_string_is_taken_only_where_that_is_configured() {
    let good = format!("api_key={TOKEN}");
    let (_folder, closed) = app(|_| {}).await;
    assert_eq!(send(&closed, &good, "{}").await, Err(Code::Unauthorized));
    closed.service.close().await.unwrap();
    let (_folder, open) = app(|options| options.ingest.key_in_query = true).await;
    assert_eq!(send(&open, &good, "{}").await.unwrap(), json!({"message": "Logged!", "accepted": 1, "rejected": 0}));
    for bad in ["", "api_key=", "api_key=somebody-else-with-some-token", "api_key=%0a"] {
        assert_eq!(send(&open, bad, "{}").await, Err(Code::Unauthorized), "{bad}");
    }
    open.service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_a_body_is_as_configured() {
    let (_folder, app) = app(|options| {
        options.ingest.max_body = 1000;
        options.ingest.key_in_query = true;
    })
    .await;
    let key = format!("api_key={TOKEN}");
    assert_eq!(send(&app, &key, format!("{{}}{}", " ".repeat(999))).await, Err(Code::TooLarge));
    assert!(send(&app, &key, format!("{{}}{}", " ".repeat(998))).await.is_ok());
    app.service.close().await.unwrap();
}
