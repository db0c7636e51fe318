//! What the database said when requests failed.

mod nearest;

use std::time::Duration;

use tidegate_sdk::{Problem, Request, Response, Table, Timestamp, endpoint, statement};

use crate::nearest::nearest;

struct Complaint {
    at: Timestamp,
    severity: Option<String>,
    sql_state: Option<String>,
    message: Option<String>,
}

fn handle(request: &Request) -> Result<Response, Problem> {
    let seconds = request.int64("seconds")?;
    if !(0..=60).contains(&seconds) {
        return Err(Problem::invalid_argument("seconds must be from 0 to 60"));
    }
    if !(1..=720).contains(&request.int64("hours")?) {
        return Err(Problem::invalid_argument("hours must be from 1 to 720"));
    }
    let reach = Duration::from_secs(seconds.unsigned_abs());

    let Some(minute) = statement("default").run()?.scalar::<Timestamp>()? else {
        return Ok(Response::empty());
    };
    let (from, to) = (minute, minute + Duration::from_secs(60));
    let complaints = complaints(from - reach, to + reach + Duration::from_micros(1))?;

    let mut rows = statement("failures").bind("from", from).bind("to", to).run()?.rows();
    let (at, status) = (rows.column::<Timestamp>("at")?, rows.column::<i64>("status")?);
    let (method, path) = (rows.column::<str>("method")?, rows.column::<str>("path")?);
    let mut table = Table::new([
        "timestamp",
        "method",
        "path",
        "status",
        "database_timestamp",
        "database_severity",
        "database_sql_state",
        "database_message",
    ]);
    let times: Vec<Timestamp> = complaints.iter().map(|complaint| complaint.at).collect();
    while let Some(row) = rows.next()? {
        let Some(at) = row.get(at) else { continue };
        let complaint = nearest(&times, at, reach).and_then(|index| complaints.get(index));
        table.push((
            at,
            row.get(method).map(str::to_owned),
            row.get(path).map(str::to_owned),
            row.get(status),
            complaint.map(|complaint| complaint.at),
            complaint.and_then(|complaint| complaint.severity.as_deref()),
            complaint.and_then(|complaint| complaint.sql_state.as_deref()),
            complaint.and_then(|complaint| complaint.message.as_deref()),
        ));
    }
    Response::table(table)
}

/// The errors of the database from `from` until before `to`, in the order of time.
fn complaints(from: Timestamp, to: Timestamp) -> Result<Vec<Complaint>, Problem> {
    let mut rows = statement("database-errors").bind("from", from).bind("to", to).run()?.rows();
    let (at, message) = (rows.column::<Timestamp>("at")?, rows.column::<str>("message")?);
    let (severity, sql_state) = (rows.column::<str>("severity")?, rows.column::<str>("sql_state")?);
    let mut complaints = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(at) = row.get(at) else { continue };
        complaints.push(Complaint {
            at,
            severity: row.get(severity).map(str::to_owned),
            sql_state: row.get(sql_state).map(str::to_owned),
            message: row.get(message).map(str::to_owned),
        });
    }
    Ok(complaints)
}

endpoint!(handle);
