//! Every attack in one guest, chosen by the parameter `attack`.
//!
//! The tests assert for each how the request ends, that the next request works, and that nothing of
//! the guest is held afterwards. Each attack is named in the log before it begins, and `none` does what
//! it should, so that the tests are not vacuous. A few do what the contract promises something for, with the parameter
//! `project` as their argument. What Rust cannot say (bad pointers, an allocator that
//! lies) is written as text in the runtime's own tests.
#![expect(clippy::panic, reason = "this guest misbehaves on purpose")]

mod memory;

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_sdk::contract::{
    Batch, Column, Kind, Level, Packed, Problem, Response, ResultSet, Series, SeriesData, Value, record_line, run,
};
use tidegate_sdk::{Request, endpoint};

/// Must be 0 at the start of every request: no instance serves two.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

fn handle(request: &Request) -> Result<Response, Problem> {
    let earlier = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let attack = match request.argument("attack") {
        Some(Value::Text(attack)) => attack,
        _ => return Err(Problem::new("invalid-argument", "which attack?")),
    };
    record_line(Level::Info, &format!("attack {attack}"));
    match attack.as_str() {
        "none" => {}
        "spin" => loop {
            black_box(());
        },
        "grow" => grow(),
        "grow-at-once" => drop(black_box(vec![1_u8; 1 << 30])),
        "recurse" => drop(black_box(recurse(1))),
        "panic" => panic!("a secret of the guest"),
        "handles" => hoard(),
        "divide" => drop(black_box(1 / black_box(i32::from(attack.is_empty())))),
        "wild-pointer" => memory::read_beyond(),
        "runs" => loop {
            // Whatever the host says, again.
            drop(run("default", &[]));
        },
        "log" => (0..1_000_000).for_each(|_| record_line(Level::Info, "again")),
        "long-line" => record_line(Level::Info, &"x".repeat(4 << 20)),
        "leak" => leak()?,
        "undeclared" => drop(run("no-such-statement", &[])?),
        "sql-as-name" => drop(run("SELECT 1", &[])?),
        "override" => {
            let everyone = ("project".to_owned(), Value::Text("someone-else".to_owned()));
            return Ok(Response::rows(run("default", &[everyone])?));
        }
        "wrong-kind" => {
            return Ok(Response::rows(run("default", &[("extra".to_owned(), Value::Bytes(vec![0xff; 9]))])?));
        }
        "sql-in-argument" => {
            let extra = ("extra".to_owned(), Value::Text("' OR 1 = 1; DROP TABLE edge_logs --".to_owned()));
            return Ok(Response::rows(run("with-argument", &[extra])?));
        }
        "remember" => return Ok(Response::document(&memory::remember(&text_of(request, "project")).to_string())?),
        "read-all" => {
            let set = run("default", &[])?;
            while let Some(batch) = set.next(u32::MAX)? {
                black_box(batch);
            }
        }
        "read-zero" => drop(run("default", &[])?.next(0)?),
        "half-read" => {
            let set = run("default", &[])?;
            set.next(1)?;
            return Ok(Response::rows(set));
        }
        "lie-about-rows" => return Ok(Response::rows(lie()?)),
        "huge-note" => {
            let response = Response::empty();
            response.note("big", &"n".repeat(500_000));
            return Ok(response);
        }
        "bad-json" => return Ok(Response::document("{\"open\": [")?),
        "huge-document" => return Ok(Response::document(&["\"", &"x".repeat(4 << 20), "\""].concat())?),
        "deep-document" => return Ok(Response::document(&["[".repeat(200_000), "]".repeat(200_000)].concat())?),
        "huge-problem" => return Err(Problem::new(&"c".repeat(100_000), &"d".repeat(100_000))),
        "false-reason" => return Err(Problem::new("statement-failed", "")),
        "notes" => {
            let response = Response::empty();
            (0..1000).for_each(|n: u32| response.note(&n.to_string(), "note"));
            response.note("bad key\r\nx: y", "v");
            return Ok(response);
        }
        "max-age" => {
            let response = Response::rows(run("default", &[])?);
            // The smallest of several holds.
            for seconds in text_of(request, "project").split(' ').filter_map(|seconds| seconds.parse().ok()) {
                response.max_age(seconds);
            }
            return Ok(response);
        }
        "remark" => {
            let response = Response::rows(run("default", &[])?);
            response.note("seen", &text_of(request, "project"));
            response.note("seen-again", "50% of \u{e9}\r\nx-evil: 1");
            return Ok(response);
        }
        "try-again" => {
            let problem = Problem::new(&text_of(request, "project"), "not yet");
            return Err(problem.retryable());
        }
        "marker" => return Ok(Response::document(&earlier.to_string())?),
        "time" => return Ok(Response::document(&request.received_at().micros().to_string())?),
        _ => return Err(Problem::new("not-found", "no such attack")),
    }
    Ok(Response::rows(run("default", &[])?))
}

fn text_of(request: &Request, name: &str) -> String {
    match request.argument(name) {
        Some(Value::Text(text)) => text,
        _ => String::new(),
    }
}

fn grow() {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1_u8; 1 << 20]));
    }
}

#[expect(unconditional_recursion, reason = "the point of it")]
fn recurse(depth: u64) -> u64 {
    black_box(recurse(black_box(depth + 1)) + 1)
}

fn hoard() {
    let mut kept = Vec::new();
    loop {
        kept.push(Response::empty());
    }
}

/// Result sets that are never dropped, as many as there are.
fn leak() -> Result<(), Problem> {
    loop {
        std::mem::forget(run("default", &[])?);
    }
}

/// Rows whose offsets point outside of their buffer.
fn lie() -> Result<ResultSet, Problem> {
    let column = Column { name: "lie".to_owned(), kind: Kind::Text, nullable: false };
    let data = SeriesData::Texts(Packed { offsets: vec![0, u32::MAX], buffer: vec![0xff] });
    let series = Series { validity: None, data };
    Ok(ResultSet::make(&[column], &[Batch { rows: 1, columns: vec![series] }])?)
}

endpoint!(handle);
