//! The journal of systemd: bodies of any length, entries that come again, and what its own program sends where it is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Data, PUBLIC, Raw, Server, binary, folder, lasting_port};

use crate::doors::{EXPORT, SOURCE, messages, rows};

const LONG: Duration = Duration::from_secs(30);
const TIME: i64 = 1_763_633_702_123_456;
const BOOT: &str = "1f5d7c8a9b0e4f6aa1b2c3d4e5f60718";

fn cursor(number: i64) -> String {
    format!("s=0123456789abcdef0123456789abcdef;i={number:x};b={BOOT};m={number:x};t={number:x};x={number:x}")
}

/// An entry with this number.
fn entry(number: i64, message: &str) -> Vec<u8> {
    let (cursor, time) = (cursor(number), TIME + number);
    let mut entry = format!(
        "__CURSOR={cursor}\n__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={number}\n_BOOT_ID={BOOT}\nPRIORITY=6\n\
         SYSLOG_IDENTIFIER=shop\nNUMBER={number}\nMESSAGE"
    )
    .into_bytes();
    if message.contains('\n') {
        entry.push(b'\n');
        entry.extend((message.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend([message.as_bytes(), b"\n\n"].concat());
    entry
}

fn upload(server: &Server, body: &[u8]) -> Raw {
    let path = format!("/journal/{SOURCE}/upload");
    server.fetch("POST", &path, &[("x-api-key", PUBLIC), ("content-type", EXPORT)], body)
}

fn counted(server: &Server, name: &str) -> f64 {
    server.metric(&format!("tidegate_door_{name}_total{{door=\"journal\"}}"))
}

#[test]
fn an_entry_is_stored_once_however_often_it_comes() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let bad = [b"MESSAGE=".to_vec(), vec![b'x'; 2 << 20], b"\n\n".to_vec()].concat();
    let first = [entry(1, "one"), bad, entry(2, "two\nlines")].concat();
    let answer = upload(&server, &first);
    assert_eq!((answer.status, answer.text()), (202, "OK.\n"));
    assert_eq!(counted(&server, "refused_events"), 1.0);
    // What cannot be stored would come again for ever, and nothing behind it.
    assert_eq!(upload(&server, &[b"MESSAGE=".to_vec(), vec![b'x'; 2 << 20], b"\n\n".to_vec()].concat()).status, 202);
    server.kill_now();
    drop(server);
    let server = Server::start_in(&data);
    upload(&server, &[first, entry(3, "three")].concat()).is(202);
    let found = rows(&server, "event_message, timestamp, m.SYSLOG_IDENTIFIER as program, m.NUMBER as number");
    let row = |number: i64, message: &str| json!({"event_message": message, "timestamp": TIME + number, "program": "shop", "number": number.to_string()});
    assert_eq!(found, [row(1, "one"), row(3, "three"), row(2, "two\nlines")]);
    // Another sender may have read the same journal.
    let unknown = server.fetch("POST", "/journal/nothing/upload", &[("x-api-key", PUBLIC)], &entry(4, "four"));
    assert!(unknown.status == 401 && unknown.text().contains("no source"), "{} {}", unknown.status, unknown.text());
}

/// A machine sends all that it has in one request, which is longer than any body may be.
#[test]
fn a_journal_may_be_longer_than_a_body() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_MAX_BODY", "1 MiB")]);
    let filling = "x".repeat(10_000);
    let mut body: Vec<u8> = (0..500).flat_map(|number| entry(number, &format!("{filling}{number}"))).collect();
    // One that is longer than a body costs only itself.
    body.extend([b"MESSAGE=".to_vec(), vec![b'y'; 3 << 20], b"\n\n".to_vec()].concat());
    body.extend((500..600).flat_map(|number| entry(number, &format!("{filling}{number}"))));
    for _ in 0..2 {
        upload(&server, &body).is(202);
        assert_eq!(messages(&server).len(), 600);
    }
    assert_eq!(counted(&server, "refused_events"), 2.0);
    assert!(server.peak_memory() < 400, "{} MiB", server.peak_memory());
    // What ends in the middle says so, after what was whole is stored.
    let mut cut = [entry(600, "whole"), entry(601, "cut")].concat();
    cut.truncate(cut.len() - 5);
    let answer = upload(&server, &cut);
    assert!(answer.status == 400 && answer.text().contains("ends within"), "{} {}", answer.status, answer.text());
    assert_eq!(messages(&server).len(), 601);
}

/// A program of systemd, wherever the distribution puts it.
fn program(name: &str) -> Option<PathBuf> {
    ["/usr/lib/systemd", "/lib/systemd"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// A journal with these entries beside those that it has.
fn write_journal(remote: &Path, folder: &Path, part: usize, entries: &[u8]) {
    let sent = folder.join(format!("{part}.export"));
    std::fs::write(&sent, entries).unwrap();
    let file = folder.join(format!("part-{part}.journal"));
    let done = Command::new(remote).arg("--output").arg(&file).arg(&sent).output().unwrap();
    assert!(done.status.success() && file.is_file(), "{done:?}");
    std::fs::remove_file(sent).unwrap();
}

/// The program that sends journals, with the state that it keeps: all at once, and through failures.
#[test]
fn systemd_journal_upload_sends_each_entry_once() {
    let (Some(send), Some(remote)) = (program("systemd-journal-upload"), program("systemd-journal-remote")) else {
        eprintln!("SKIPPED: systemd-journal-remote is not installed, so that its program is not tried");
        return;
    };
    let folder = folder();
    let (data, journal) = (folder.path().join("data"), folder.path().join("journal"));
    std::fs::create_dir(&journal).unwrap();
    let address = format!("127.0.0.1:{}", lasting_port());
    let start = |settings: &[(&str, &str)]| {
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", &address, "--data-dir"]).arg(&data).envs(settings.iter().copied());
        Server::spawn_at(command, folder.path().join("log"), &address)
    };
    let sent = || -> Output {
        let mut command = Command::new(&send);
        command.arg(format!("--url=http://any:{PUBLIC}@{address}/journal/{SOURCE}"));
        command.arg("--directory").arg(&journal).arg("--follow=no");
        command.arg(format!("--save-state={}", folder.path().join("state").display()));
        command.env("NO_PROXY", "127.0.0.1").output().unwrap()
    };
    let part = |numbers: std::ops::Range<i64>| -> Vec<u8> {
        numbers.flat_map(|number| entry(number, &format!("event {number:03}"))).collect()
    };
    let server = start(&[]);
    // One cannot be stored.
    let bad = entry(100, &"x".repeat(2 << 20));
    write_journal(&remote, &journal, 0, &[part(0..100), bad].concat());
    let first = sent();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(messages(&server).len(), 100);
    server.kill_now();
    drop(server);
    // Nobody is there.
    write_journal(&remote, &journal, 1, &part(101..201));
    assert!(!sent().status.success());
    // Too much: its limit lets one request in.
    let server = start(&[("TIDEGATE_RATE_INGEST_PER_SECOND", "1"), ("TIDEGATE_RATE_BURST", "1")]);
    let began = Instant::now();
    loop {
        // A request without entries takes the place of the next one.
        let taken = upload(&server, b"");
        if taken.status == 429 {
            break;
        }
        assert!(began.elapsed() < LONG);
    }
    let _ = sent();
    drop(server);
    // The state is lost: all comes again.
    let _ = std::fs::remove_file(folder.path().join("state"));
    let server = start(&[]);
    let last = sent();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    let expected: Vec<Value> = (0..201).filter(|n| *n != 100).map(|n| json!(format!("event {n:03}"))).collect();
    assert_eq!(messages(&server), expected);
    let found = rows(&server, "event_message, timestamp, m.SYSLOG_IDENTIFIER as program, m.NUMBER as number");
    assert_eq!(
        found[7],
        json!({"event_message": "event 007", "timestamp": TIME + 7, "program": "shop", "number": "7"})
    );
}
