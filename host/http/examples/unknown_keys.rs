//! Measures what a flood of tokens with unknown keys does to other callers: what
//! `docs/contributing/measurements/service.md` reports.
//!
//!     cargo run --release -p tidegate-http --example unknown_keys -- FOLDER 100000
//!
//! Another caller asks for logs all the time: alone; while so many requests with unknown tokens of this service arrive,
//! which shows what so many requests cost; and while so many arrive whose JWTs each name another key that the issuer does not
//! have. Service and senders share the machine.
#![expect(clippy::unwrap_used, reason = "a measurement may end with a panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tidegate_http::{Startup, serve};
use tidegate_service::issuer_options::{IssuerOptions, KeysFrom, RuleOptions};
use tidegate_service::options::ServerOptions;
use tidegate_service::{Options, Service};

const TOKEN: &str = "private-token-of-the-measurement";
const SENDERS: usize = 4;
/// The other caller's pause after an answer, and how long it asks alone.
const PAUSE: Duration = Duration::from_millis(2);
const ALONE: Duration = Duration::from_secs(20);
const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

/// An issuer on this machine, and how often it was asked.
fn issuer() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let length = KEYS.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{KEYS}");
        }
    });
    (url, asked)
}

fn status(agent: &ureq::Agent, url: &str, token: &str) -> u16 {
    let mut answer = agent.get(url).header("authorization", format!("Bearer {token}")).call().unwrap();
    answer.body_mut().read_to_vec().unwrap();
    answer.status().as_u16()
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().new_agent()
}

/// Median and p99 in milliseconds of the other caller's requests until `ended`, and their number.
fn others(url: &str, ended: impl Fn() -> bool) -> (f64, f64, usize) {
    let agent = agent();
    let mut times = Vec::new();
    while !ended() {
        let began = Instant::now();
        assert_eq!(status(&agent, url, TOKEN), 200);
        times.push(began.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    times.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
    (at(50), at(99), times.len())
}

/// The same while `count` requests arrive with tokens that are made of their number. Also how long these took.
fn flooded(url: &str, count: usize, token: impl Fn(usize) -> String + Sync) -> ((f64, f64, usize), Duration) {
    let (next, is_over, began) = (AtomicUsize::new(0), AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let other = scope.spawn(|| others(url, || is_over.load(Ordering::Relaxed)));
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                scope.spawn(|| {
                    let agent = agent();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        assert_eq!(status(&agent, url, &token(number)), 401);
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let took = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        (other.join().unwrap(), took)
    })
}

fn report(url: &str, count: usize, asked: &AtomicUsize) {
    let b64 = |text: String| BASE64_URL_SAFE_NO_PAD.encode(text);
    let began = Instant::now();
    others(url, || began.elapsed() > ALONE / 4);
    let began = Instant::now();
    let alone = others(url, || began.elapsed() > ALONE);
    println!("alone: p50 {:.2} ms, p99 {:.2} ms of {} requests", alone.0, alone.1, alone.2);
    let stored = |number: usize| format!("tg_{number:048}");
    let jwt = |number: usize| {
        let header = b64(format!(r#"{{"alg":"EdDSA","kid":"unknown {number}"}}"#));
        let claims =
            r#"{"iss":"https://id.example.com/","aud":"tidegate","sub":"u1","iat":1800000000,"exp":1800000600}"#;
        format!("{header}.{}.{}", b64(claims.to_owned()), BASE64_URL_SAFE_NO_PAD.encode([0; 64]))
    };
    let what: [(&str, &(dyn Fn(usize) -> String + Sync)); 2] = [("unknown tokens", &stored), ("unknown keys", &jwt)];
    for (name, token) in what {
        let before = asked.load(Ordering::Relaxed);
        let ((p50, p99, number), took) = flooded(url, count, token);
        println!(
            "{count} {name} in {took:.1?}: p50 {p50:.2} ms, p99 {p99:.2} ms of {number} requests, ratio of p99 {:.2}; the issuer was asked {} times",
            p99 / alone.1,
            asked.load(Ordering::Relaxed) - before
        );
    }
}

async fn measure(folder: &Path, count: usize) {
    let (keys, asked) = issuer();
    let rule = RuleOptions { name: "all".to_owned(), scopes: "query".to_owned(), ..RuleOptions::default() };
    let issuer = IssuerOptions {
        name: "main".to_owned(),
        issuer: "https://id.example.com/".to_owned(),
        keys: Some(KeysFrom::Url(keys)),
        audience: vec!["tidegate".to_owned()],
        rules: vec![rule],
        ..IssuerOptions::default()
    };
    let options = Options { private_token: Some(TOKEN.to_owned()), issuers: vec![issuer], ..Options::new(folder) };
    let (service, _) = Service::open(options).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/api/endpoints/query/logs.all?project=p", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let options = ServerOptions::default();
        serve(Startup::opened(service), listener, None, None, &options, std::future::pending()).await.unwrap();
    });
    tokio::task::spawn_blocking(move || report(&url, count, &asked)).await.unwrap();
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap();
    measure(folder.as_ref(), arguments.next().map_or(100_000, |count| count.parse().unwrap())).await;
}
