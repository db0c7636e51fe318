//! Measures a start with many endpoints: what `docs/contributing/measurements/service.md` reports.
//!
//!     cargo run --release -p tidegate-http --example many -- FOLDER 10000
//!     cargo run --release -p tidegate-http --example many -- FOLDER
//!
//! With a number, a folder with so many saved queries is made and nothing is measured: the memory
//! of who makes them would be measured too. Without, the service is opened on the folder.
#![expect(clippy::unwrap_used, reason = "a measurement may end with a panic")]
#![expect(clippy::disallowed_methods, reason = "it fills the catalog before the service opens it")]

use std::path::Path;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tidegate_compiler::compile_sql;
use tidegate_http::{Startup, serve};
use tidegate_model::{EndpointName, Manifest, Parameter};
use tidegate_service::catalog::{EndpointTable, NewVersion};
use tidegate_service::options::ServerOptions;
use tidegate_service::{Options, Service};
use tidegate_store::{Store, StoreOptions};
use tokio::net::TcpListener;

const SOURCE: &str = "cloudflare.logs.prod";
const TOKEN: &str = "private-token-of-the-measurement";

/// A query as teams write them: one granted table, a filter for the tenant, a series.
fn query(i: usize) -> String {
    format!(
        "WITH edge AS (\n  SELECT t.id, t.timestamp, t.event_message, t.project, t.metadata\n  FROM `{SOURCE}` AS t\n  \
         WHERE t.project = @project AND t.event_message != 'endpoint {i}'\n)\n\
         SELECT timestamp_trunc(timestamp, HOUR) AS hour, COUNT(*) AS requests, {i} AS number\n\
         FROM edge\nGROUP BY hour\nORDER BY hour DESC\nLIMIT 100\n"
    )
}

fn make(folder: &Path, count: usize) {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    let source = store.ensure_source(SOURCE).unwrap().id;
    let began = Instant::now();
    for i in 0..count {
        let name = format!("team{:02}.endpoint{i}", i % 50);
        let mut manifest = Manifest::new(EndpointName::try_from(name.clone()).unwrap(), query(i));
        manifest.parameters.push(Parameter { name: "project".to_owned(), required: true, ..Parameter::default() });
        let component = compile_sql(&manifest).unwrap();
        let version = NewVersion {
            id: uuid::Uuid::new_v4(),
            name: &name,
            manifest: &serde_json::to_string(&manifest).unwrap(),
            component: &component,
            component_digest: &hex::encode(Sha256::digest(&component)),
            author: "the measurement",
            sources: &[(SOURCE.to_owned(), source)].into(),
            alerts: &[],
        };
        EndpointTable(store.catalog()).put(version).unwrap();
    }
    store.catalog().set_meta("seeded", "1").unwrap();
    println!("{count} endpoints saved in {:.1?}", began.elapsed());
}

/// Resident memory in MiB, now and at its most.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

async fn fetch(address: String, path: String) -> (Duration, String) {
    tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let request = ureq::get(format!("http://{address}{path}")).header("x-api-key", TOKEN);
        let body = request.call().unwrap().body_mut().read_to_string().unwrap();
        (began.elapsed(), body)
    })
    .await
    .unwrap()
}

async fn measure(folder: &Path) {
    let (before, _) = memory();
    let began = Instant::now();
    let options = Options { private_token: Some(TOKEN.to_owned()), ..Options::new(folder) };
    let (service, _) = Service::open(options).await.unwrap();
    println!("open after {:.1?}", began.elapsed());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = async move {
        let options = ServerOptions::default();
        serve(Startup::opened(service), listener, None, None, &options, std::future::pending()).await.unwrap();
    };
    tokio::spawn(serving);
    fetch(address.clone(), "/ready".to_owned()).await;
    println!("ready after {:.1?}; {} MiB, {before} MiB before the start", began.elapsed(), memory().0);
    let call = |i: usize| {
        let path = format!("/api/endpoints/query/team{:02}.endpoint{i}?project=p", i % 50);
        fetch(address.clone(), path)
    };
    for i in [0, 1, 2, 0] {
        println!("a call of endpoint {i}: {:.1?}", call(i).await.0);
    }
    println!("{} MiB", memory().0);
    loop {
        let (_, ready) = fetch(address.clone(), "/ready".to_owned()).await;
        if ready.contains("\"unchecked_endpoints\":0") {
            println!("all checked after {:.1?}: {ready}", began.elapsed());
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{} MiB, at most {} MiB", memory().0, memory().1);
    let (time, list) = fetch(address.clone(), "/api/endpoints".to_owned()).await;
    println!("the list of all, {} KiB: {time:.1?}; at most {} MiB", list.len() / 1024, memory().1);
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap();
    match arguments.next() {
        Some(count) => make(folder.as_ref(), count.parse().unwrap()),
        None => measure(folder.as_ref()).await,
    }
}
