//! The log of the database server: one record per line.

use serde_json::Value;

use super::clock::Clock;
use super::dice::{Dice, mixed};
use super::moment::Moment;
use super::words::TABLES;
use super::{set, wrap};

/// The parts of a log line that depend on its kind.
struct Line {
    severity: &'static str,
    state: &'static str,
    backend: &'static str,
    application: &'static str,
    user: &'static str,
    tag: &'static str,
    message: String,
    query: Option<String>,
    detail: Option<String>,
    hint: Option<&'static str>,
}

impl Line {
    fn log(message: String) -> Self {
        Self {
            severity: "LOG",
            state: "00000",
            backend: "client backend",
            application: "",
            user: "postgres",
            tag: "",
            message,
            query: None,
            detail: None,
            hint: None,
        }
    }

    fn trouble(severity: &'static str, state: &'static str, tag: &'static str, message: String) -> Self {
        Self { severity, state, tag, application: "PostgREST 12.4", user: "authenticator", ..Self::log(message) }
    }
}

pub(super) fn event(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    // Three consecutive events belong to one process: connection received, authenticated, authorized.
    let process = mixed(moment.index as u64 / 3) % 60_000 + 200;
    let port = 20_000 + process / 2;
    let line = match dice.below(100) {
        0..90 => log(dice, moment, port),
        90..93 => warning(dice),
        93..99 => error(dice),
        _ => fatal(dice),
    };
    if moment.bare {
        bare(dice, moment, clock, &line, process)
    } else {
        hosted(dice, moment, clock, line, process, port)
    }
}

fn log(dice: &mut Dice, moment: &Moment, port: u64) -> Line {
    let table = dice.pick(&TABLES);
    match dice.below(100) {
        0..54 => {
            let message = match moment.index % 3 {
                0 => format!("connection received: host=10.4.0.21 port={port}"),
                1 => "connection authenticated: identity=\"authenticator\" method=scram-sha-256 (/etc/harbour/pg_hba.conf:7)".to_owned(),
                _ => "connection authorized: user=authenticator database=postgres application_name=PostgREST 12.4".to_owned(),
            };
            Line { user: "authenticator", tag: "authentication", ..Line::log(message) }
        }
        54..62 => {
            let message = if dice.chance(50) {
                "checkpoint starting: time".to_owned()
            } else {
                format!(
                    "checkpoint complete: wrote {} buffers (0.3%); 0 WAL file(s) added, 1 removed, 0 recycled",
                    dice.below(900)
                )
            };
            Line { backend: "checkpointer", user: "", ..Line::log(message) }
        }
        62..76 => {
            let job = dice.below(6) + 1;
            let message = if dice.chance(50) {
                format!("cron job {job} starting: call refresh_tides()")
            } else {
                format!("cron job {job} completed: 1 row")
            };
            Line { backend: "pg_cron launcher", application: "pg_cron", ..Line::log(message) }
        }
        76..86 => {
            let query = format!(
                "select count(*) from {table} where updated_at > now() - interval '1 day' -- source: dashboard"
            );
            let message = format!("duration: {:.3} ms  statement: {query}", dice.duration(900.0));
            Line { application: "harbour/dashboard", tag: "SELECT", query: Some(query), ..Line::log(message) }
        }
        86..93 => {
            let message = format!(
                "AUDIT: SESSION,{},1,DDL,ALTER TABLE,TABLE,public.{table},alter table {table} add column note text,<none>",
                dice.below(40) + 1
            );
            Line { tag: "ALTER TABLE", application: "harbour/dashboard", ..Line::log(message) }
        }
        93..97 => Line {
            backend: "autovacuum worker",
            ..Line::log(format!(
                "automatic vacuum of table \"postgres.public.{table}\": index scans: {}",
                dice.below(3)
            ))
        },
        _ => Line::log(format!(
            "[pg_stat_monitor] bucket {} is full; the oldest statements were dropped",
            dice.below(10)
        )),
    }
}

fn warning(dice: &mut Dice) -> Line {
    let table = dice.pick(&TABLES);
    if dice.chance(50) {
        Line::trouble("WARNING", "01000", "VACUUM", format!("skipping \"{table}\" --- only its owner can vacuum it"))
    } else {
        Line::trouble("WARNING", "25001", "BEGIN", "there is already a transaction in progress".to_owned())
    }
}

fn error(dice: &mut Dice) -> Line {
    let table = dice.pick(&TABLES);
    let number = dice.below(90_000);
    match dice.below(5) {
        0 => Line {
            query: Some(format!("insert into {table} (code)\nvalues ($1)\nreturning *")),
            detail: Some(format!("Key (code)=(H-{number}) already exists.")),
            ..Line::trouble(
                "ERROR",
                "23505",
                "INSERT",
                format!("duplicate key value violates unique constraint \"{table}_code_key\""),
            )
        },
        1 => Line {
            query: Some(format!("select * from {table}_old")),
            hint: Some("Perhaps the table was renamed."),
            ..Line::trouble("ERROR", "42P01", "SELECT", format!("relation \"{table}_old\" does not exist"))
        },
        2 => Line::trouble("ERROR", "42501", "SELECT", format!("permission denied for table {table}")),
        3 => Line {
            query: Some(format!("select * from {table} t cross join voyages v order by t.note, v.remark")),
            ..Line::trouble("ERROR", "57014", "SELECT", "canceling statement due to statement timeout".to_owned())
        },
        _ => Line {
            query: Some(format!("update {table} set note = 'Ærø \\ 100 %' where id = {number}")),
            ..Line::trouble("ERROR", "22P02", "UPDATE", format!("invalid input syntax for type uuid: \"{number}\""))
        },
    }
}

fn fatal(dice: &mut Dice) -> Line {
    if dice.chance(60) {
        Line::trouble(
            "FATAL",
            "28P01",
            "authentication",
            "password authentication failed for user \"skipper\"".to_owned(),
        )
    } else {
        Line::trouble(
            "FATAL",
            "53300",
            "startup",
            "remaining connection slots are reserved for roles with the SUPERUSER attribute".to_owned(),
        )
    }
}

fn hosted(dice: &mut Dice, moment: &Moment, clock: &mut Clock, line: Line, process: u64, port: u64) -> Value {
    let begun = moment.at - i64::from(dice.below(3_000)) * 1_000_000;
    let mut parsed = record! {
        "error_severity": line.severity, "sql_state_code": line.state, "backend_type": line.backend,
        "application_name": line.application, "user_name": line.user, "database_name": "postgres",
        "command_tag": line.tag, "process_id": process, "session_id": format!("{:x}.{process:x}", begun / 1_000_000),
        "session_line_num": dice.below(30) + 1, "session_start_time": clock.of_session(begun),
        "transaction_id": if line.severity == "LOG" { 0 } else { dice.below(900_000) },
        "virtual_transaction_id": format!("{}/{}", dice.below(90), dice.below(9_000)),
        "timestamp": clock.of_database(moment.at),
        "connection_from": if dice.one_in(8) { "[local]".to_owned() } else { format!("10.4.0.21:{port}") },
    };
    if let Some(query) = line.query {
        set(&mut parsed, "query", query);
        // Random 64-bit numbers: most exceed 2^53, and half of them are negative.
        set(&mut parsed, "query_id", dice.any().cast_signed());
    }
    if let Some(detail) = line.detail {
        set(&mut parsed, "detail", detail);
    }
    if let Some(hint) = line.hint {
        set(&mut parsed, "hint", hint);
    }
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false), "project": moment.project,
        "identifier": moment.project, "event_message": line.message,
        "metadata": wrap(record! { "host": format!("db-{}", moment.project), "parsed": wrap(parsed) }),
    }
}

fn bare(dice: &mut Dice, moment: &Moment, clock: &mut Clock, line: &Line, process: u64) -> Value {
    let written = clock.of_database(moment.at);
    record! {
        "timestamp": clock.timestamp(dice, moment.at, true), "appname": "harbour-db", "project": "default",
        "event_message": format!("{written} [{process}] {}:  {}", line.severity, line.message),
        "metadata": record! {
            "host": "db-default",
            "parsed": record! { "error_severity": line.severity, "timestamp": written },
        },
    }
}
