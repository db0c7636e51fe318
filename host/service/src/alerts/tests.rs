//! Alerts over time: the clock is turned forward, and the service is started again in between.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_compiler::manifest_of_texts;
use uuid::Uuid;

use crate::catalog::{AlertMessageTable, AlertTable};
use crate::clock::{Clock, Turned};
use crate::networks::networks;
use crate::options::Options;
use crate::save_request::SaveRequest;
use crate::service::Service;

/// A receiver that records what it is sent, and answers the statuses that it is given, then 200.
struct Receiver {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn start(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (own, mut statuses) = (Arc::clone(&bodies), statuses.iter());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while stream.read_line(&mut line).unwrap() > 2 {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                own.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let status = statuses.next().unwrap_or(&200);
                let _ =
                    write!(stream.get_mut(), "HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Self { url, bodies }
    }

    /// The states of the messages that came.
    fn states(&self) -> Vec<String> {
        self.bodies.lock().unwrap().iter().map(|body| body["state"].as_str().unwrap().to_owned()).collect()
    }

    fn body(&self, at: usize) -> Value {
        self.bodies.lock().unwrap()[at].clone()
    }
}

async fn open(folder: &Path, turned: Turned) -> Arc<Service> {
    let mut options = Options::new(folder);
    options.alerts.allow_networks = networks("127.0.0.0/8").unwrap();
    let began = Instant::now();
    loop {
        // A task of the service that was there before may still be about to end.
        match Service::open_at(options.clone(), Clock::Turned(turned)).await {
            Ok((service, _)) => return service,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(10), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn save(service: &Service, name: &str, query: &str, alerts: &str) -> Uuid {
    let manifest = manifest_of_texts(&format!("name = \"{name}\"\n{alerts}"), query).unwrap();
    let id = service.registry.find(name).map(|entry| entry.id);
    let saving = SaveRequest { id, ..SaveRequest::default() };
    service.registrar.register_query(&manifest, saving).await.unwrap().id
}

fn alert(url: &str, more: &str) -> String {
    format!("[[alert]]\nname = \"a\"\nevery_minutes = 10\ncondition = \"rows > 0\"\nurl = \"{url}\"\n{more}")
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Turns the clock forward past one run, and waits until that was written.
async fn turn(service: &Service, turned: Turned, id: Uuid, minutes: i64) {
    let runs = service.alerts.counts().runs;
    turned.forward(minutes);
    let catalog = service.store.catalog();
    until("it is run", || service.alerts.counts().runs > runs).await;
    until("it is written", || AlertTable(catalog).due(service.clock.now(), 9).unwrap().is_empty()).await;
    assert_eq!(service.alerts.counts().failed_runs, 0, "{:?}", AlertTable(catalog).runs(id, "a").unwrap());
    until("it is sent", || AlertTable(catalog).count().unwrap().2 == 0).await;
}

/// What became of the last attempt to send a message of the alert `a`.
fn last_delivery(service: &Service, id: Uuid) -> Value {
    let record = AlertTable(service.store.catalog()).one(id, "a").unwrap().unwrap();
    record.last_delivery.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

async fn event(service: &Service, id: &str) {
    let time = service.clock.now();
    let event = json!({"id": id, "timestamp": time, "event_message": "an error", "level": "error"});
    service.ingest("postgres.logs", vec![event]).await.unwrap();
}

/// The errors of the last 30 minutes.
const RECENT: &str = "SELECT id, level FROM `postgres.logs`
    WHERE level = 'error' AND timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 30 MINUTE)";

#[tokio::test(flavor = "multi_thread")]
async fn an_occurrence_is_sent_once_and_survives_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, turned) = (Receiver::start(&[]), Turned::new());
    let service = open(folder.path(), turned).await;
    event(&service, "before").await;
    turned.forward(60);
    let id = save(&service, "errors", RECENT, &alert(&receiver.url, "")).await;
    turn(&service, turned, id, 0).await;
    assert_eq!(receiver.states(), Vec::<String>::new());
    event(&service, "one").await;
    turn(&service, turned, id, 11).await;
    assert_eq!(receiver.states(), ["firing"]);
    let first = receiver.body(0);
    assert_eq!((&first["rows"], &first["value"], &first["condition"]), (&json!(1), &json!(1), &json!("rows > 0")));
    assert_eq!((&first["endpoint"], &first["alert"]), (&json!("errors"), &json!("a")));
    assert_eq!(first["sample"], json!([{"id": "one", "level": "error"}]));
    turn(&service, turned, id, 10).await;
    assert_eq!(receiver.states(), ["firing"], "it goes on");
    service.close().await.unwrap();
    drop(service);

    // Some runs are missed, and the occurrence goes on.
    let service = open(folder.path(), turned).await;
    event(&service, "two").await;
    let runs = AlertTable(service.store.catalog()).runs(id, "a").unwrap().len();
    turn(&service, turned, id, 25).await;
    let catalog = service.store.catalog();
    assert_eq!(AlertTable(catalog).runs(id, "a").unwrap().len(), runs + 1, "missed runs are not made up for");
    assert_eq!(receiver.states(), ["firing"]);
    turn(&service, turned, id, 40).await;
    assert_eq!(receiver.states(), ["firing", "resolved"]);
    let last = receiver.body(1);
    assert_eq!((&last["occurrence"], &last["since"]), (&first["occurrence"], &first["since"]));
    assert_eq!(last["rows"], json!(0));
    event(&service, "three").await;
    turn(&service, turned, id, 10).await;
    assert_eq!(receiver.states(), ["firing", "resolved", "firing"]);
    assert_ne!(receiver.body(2)["occurrence"], first["occurrence"]);

    // With its endpoint, it ends.
    assert!(service.registrar.unregister(id).await.unwrap());
    turned.forward(60);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!((receiver.states().len(), AlertTable(catalog).count().unwrap()), (3, (0, 0, 0)));
    service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_tried_again_later_and_then_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, turned) = (Receiver::start(&[500, 302, 200]), Turned::new());
    let service = open(folder.path(), turned).await;
    event(&service, "one").await;
    let id = save(&service, "errors", RECENT, &alert(&receiver.url, "")).await;
    let catalog = service.store.catalog();
    let delivery = || last_delivery(&service, id);
    until("the first attempt", || delivery()["attempt"] == 1).await;
    assert_eq!((&delivery()["status"], &delivery()["delivered"]), (&json!(500), &json!(false)));
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(receiver.states().len(), 1, "the pause is 10 s");
    turned.forward(1);
    until("the second attempt", || delivery()["attempt"] == 2).await;
    assert_eq!(delivery()["status"], 302, "a redirect is not followed");
    turned.forward(1);
    until("the third attempt", || delivery()["delivered"] == true).await;
    let ids: Vec<Value> = (0..3).map(|at| receiver.body(at)["occurrence"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(AlertTable(catalog).count().unwrap().2, 0);
    service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_holds_between_messages_and_failures_change_no_state() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, turned) = (Receiver::start(&[]), Turned::new());
    let service = open(folder.path(), turned).await;
    event(&service, "one").await;
    let definition = alert(&receiver.url, "again_after_minutes = 120\n");
    let id = save(&service, "errors", RECENT, &definition).await;
    turn(&service, turned, id, 0).await;
    turn(&service, turned, id, 40).await;
    assert_eq!(receiver.states(), ["firing", "resolved"]);
    event(&service, "two").await;
    turn(&service, turned, id, 10).await;
    let state = AlertTable(service.store.catalog()).one(id, "a").unwrap().unwrap().state;
    assert!(state.occurrence.is_some() && !state.announced, "{state:?}");
    turn(&service, turned, id, 40).await;
    assert_eq!(receiver.states().len(), 2, "what ended in the pause is not told at all");

    // A query that fails says nothing of the condition.
    event(&service, "three").await;
    turn(&service, turned, id, 60).await;
    event(&service, "four").await;
    turn(&service, turned, id, 10).await;
    assert_eq!(receiver.states().len(), 3);
    let broken = RECENT.replace("SELECT id,", "SELECT 1 / CAST(SUBSTR(id, 1, 0) AS INT64),");
    save(&service, "errors", &broken, &definition).await;
    turned.forward(10);
    let last =
        || -> Value { serde_json::from_str(&AlertTable(service.store.catalog()).runs(id, "a").unwrap()[0]).unwrap() };
    until("it fails", || last()["error"]["message"].is_string()).await;
    assert!(last()["holds"].is_null());
    // A run is counted after it is written.
    until("it is counted", || service.alerts.counts().failed_runs > 0).await;
    assert!(AlertTable(service.store.catalog()).one(id, "a").unwrap().unwrap().state.occurrence.is_some());
    assert_eq!(receiver.states().len(), 3);
    service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_does_not_wait_for_the_hour_that_the_clock_was_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, turned) = (Receiver::start(&[]), Turned::new());
    let service = open(folder.path(), turned).await;
    let id = save(&service, "errors", RECENT, &alert(&receiver.url, "")).await;
    turn(&service, turned, id, 0).await;
    turn(&service, turned, id, 60).await;
    let wait = |service: &Service| {
        let record = AlertTable(service.store.catalog()).one(id, "a").unwrap().unwrap();
        record.next_run.unwrap() - service.clock.now()
    };
    turned.forward(-60);
    until("its time is brought forward", || wait(&service) <= 10 * 60_000_000).await;
    event(&service, "one").await;
    turn(&service, turned, id, 10).await;
    assert_eq!(receiver.states(), ["firing"]);

    // Also if the clock goes back while the service does not run.
    turn(&service, turned, id, 60).await;
    service.close().await.unwrap();
    drop(service);
    turned.forward(-60);
    let service = open(folder.path(), turned).await;
    until("its time is brought forward", || wait(&service) <= 10 * 60_000_000).await;
    service.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_does_not_wait_for_the_hour_that_the_clock_was_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, turned) = (Receiver::start(&[500]), Turned::new());
    let service = open(folder.path(), turned).await;
    turned.forward(60);
    event(&service, "one").await;
    let id = save(&service, "errors", RECENT, &alert(&receiver.url, "")).await;
    let catalog = service.store.catalog();
    let delivery = || last_delivery(&service, id);
    until("the first attempt", || delivery()["attempt"] == 1).await;
    turned.forward(-60);
    // Its pause is 10 s.
    let soon = || service.clock.now() + 11_000_000;
    until("its time is brought forward", || !AlertMessageTable(catalog).due(soon(), None, 9).unwrap().is_empty()).await;
    assert_eq!(receiver.states(), ["firing"], "its pause holds");
    turned.forward(1);
    until("it is sent", || delivery()["delivered"] == true).await;
    assert_eq!(receiver.states(), ["firing", "firing"]);
    service.close().await.unwrap();
}

/// More messages wait for a host that does not answer than are read at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_behind_many_of_another_host_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, turned) = (Receiver::start(&[]), Turned::new());
    // It takes connections and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", silent.local_addr().unwrap());
    let service = open(folder.path(), turned).await;
    event(&service, "one").await;
    let many = |of: usize| -> String {
        (0..20).map(|n| alert(&url, "").replace("\"a\"", &format!("\"a{of}-{n}\""))).collect::<Vec<_>>().join("")
    };
    for of in 0..11 {
        save(&service, &format!("errors{of}"), RECENT, &many(of)).await;
    }
    let catalog = service.store.catalog();
    until("all are run", || AlertTable(catalog).count().unwrap().2 == 220).await;
    save(&service, "errors", RECENT, &alert(&receiver.url, "")).await;
    until("it is sent", || receiver.states() == ["firing"]).await;
    until("that is written", || AlertTable(catalog).count().unwrap().2 == 220).await;
    service.close().await.unwrap();
}
