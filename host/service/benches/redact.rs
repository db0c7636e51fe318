//! How fast texts are masked, on one core: `cargo bench -p tidegate-service --bench redact`
//!
//! Printed are megabytes of text a second, the best of several runs, for the kinds of text that
//! logs are made of; and beside it, what reading each byte once takes on the same machine.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tidegate_service::redact::{redact_json, redact_text};

/// Text of each kind, in bytes.
const SIZE: usize = 8 << 20;
const RUNS: usize = 7;

fn best(mut run: impl FnMut()) -> Duration {
    let timed = (0..RUNS).map(|_| {
        let began = Instant::now();
        run();
        began.elapsed()
    });
    timed.min().unwrap()
}

fn speed(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Lines of one kind up to [`SIZE`]; `line` makes the n-th.
fn lines(line: impl Fn(usize) -> String) -> Vec<String> {
    let (mut all, mut bytes, mut n) = (Vec::new(), 0, 0);
    while bytes < SIZE {
        let text = line(n);
        bytes += text.len();
        n += 1;
        all.push(text);
    }
    all
}

fn main() {
    let address = |n: usize| format!("198.51.{}.{}", n % 256, n * 7 % 256);
    let kinds: Vec<(&str, Vec<String>)> = vec![
        (
            "requests, an IPv4 address each",
            lines(|n| {
                format!(
                    "{} - - [21/Nov/2026:10:{:02}:{:02} +0000] \"GET /rest/v1/orders?select=id,total&status=eq.paid&limit=50 HTTP/1.1\" 200 {} \
                     \"https://shop.example.test/checkout\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36\"",
                    address(n),
                    n / 60 % 60,
                    n % 60,
                    n * 37 % 90_000
                )
            }),
        ),
        (
            "JSON in a text, an IPv6 address each",
            lines(|n| {
                format!(
                    "{{\"level\":\"info\",\"msg\":\"request completed\",\"time\":\"2026-11-21T10:15:{:02}.123456Z\",\"remote_addr\":\"2001:db8:7::{:x}\",\
                     \"request_id\":\"8f0e8f3e-4b1d-4c5e-9d4a-{:012x}\",\"duration\":{},\"path\":\"/token\",\"grant_type\":\"password\"}}",
                    n % 60,
                    n % 65_536,
                    n * 7919,
                    n * 31 % 900_000
                )
            }),
        ),
        (
            "database messages, no address",
            lines(|n| {
                format!(
                    "duration: {}.{:03} ms  execute <unnamed>: SELECT o.id, o.total, c.name FROM public.orders AS o JOIN public.customers AS c \
                     ON c.id = o.customer_id WHERE o.created_at > $1 AND o.status = ANY ($2) ORDER BY o.created_at DESC LIMIT {}",
                    n % 900,
                    n % 1000,
                    n % 100
                )
            }),
        ),
        (
            "UUIDs and times, no address",
            lines(|n| format!("8f0e8f3e-4b1d-4c5e-9d4a-{:012x} 2026-11-21T10:15:{:02}.123456Z", n * 7919, n % 60)),
        ),
        (
            "words, no address",
            lines(|n| format!("The quick brown fox {n} jumps over the lazy dog and then does it all over again")),
        ),
    ];
    println!("{:<40} {:>10} {:>12}", "text", "MB/s", "every byte");
    for (name, lines) in &kinds {
        let bytes: usize = lines.iter().map(String::len).sum();
        let masked = best(|| {
            for line in lines {
                black_box(redact_text(black_box(line)));
            }
        });
        let read = best(|| {
            for line in lines {
                black_box(black_box(line).bytes().fold(0_u8, |all, byte| all.wrapping_mul(31) ^ byte));
            }
        });
        println!("{name:<40} {:>10.0} {:>12.0}", speed(bytes, masked), speed(bytes, read));
    }
    let lines: Vec<_> = kinds.iter().flat_map(|(_, lines)| lines.iter().take(2_000)).collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let value = serde_json::json!(lines);
    let values: Vec<_> = (0..RUNS).map(|_| value.clone()).collect();
    let mut values = values.into_iter();
    let time = best(|| {
        let mut value = values.next().unwrap();
        redact_json(black_box(&mut value));
    });
    println!("{:<40} {:>10.0}", "all kinds, as a JSON value", speed(bytes, time));
}
