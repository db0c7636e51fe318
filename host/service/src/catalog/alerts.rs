//! Alerts in the catalog: what they are, their state and their last runs.
//!
//! The definitions are those of the manifest of an endpoint's current version, and are written with it. A run is written
//! in one transaction with the state that follows from it and the message that it makes. So a crash loses neither, and no
//! message is made twice for one occurrence.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use tidegate_store::Catalog;
use uuid::Uuid;

use super::Result;

/// The time of the next run of an alert that is not run.
const NEVER: i64 = i64::MAX;
/// No alert waits longer than this for its next run, and no message for its next attempt: two days, in microseconds. A time
/// that is farther ahead was written while the clock was ahead.
pub(super) const LONGEST_WAIT: i64 = 2 * 24 * 3_600 * 1_000_000;

/// Whether what was to be done at `time` is due at `now` (microseconds since 1970).
pub fn is_due(time: i64, now: i64) -> bool {
    time <= now || (time != NEVER && time > now.saturating_add(LONGEST_WAIT))
}
/// The most runs that are kept of an alert.
const MOST_RUNS: i64 = 50;
/// The most messages of an alert that wait; beyond, the oldest is dropped.
const MOST_MESSAGES: i64 = 20;
/// The most alerts of an endpoint that its current version does not have, and whose secrets are kept.
const MOST_KEPT: i64 = 50;

/// An alert of a version that is saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAlert {
    /// Its name.
    pub name: String,
    /// What it is, as JSON.
    pub definition: String,
    /// Whether it is not run for now.
    pub paused: bool,
    /// Its secret, if the catalog has none under its name.
    pub secret: String,
    /// The name that it had in the version before, if that was another one. It keeps the secret that it had then.
    pub former: Option<String>,
}

/// The state of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlertState {
    /// The occurrence that goes on: its identity, and when it began (microseconds).
    pub occurrence: Option<(Uuid, i64)>,
    /// Whether the message of that occurrence was made.
    pub announced: bool,
    /// When the last message was made that it fires (microseconds).
    pub last_fired: Option<i64>,
}

/// An alert of the current version of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRecord {
    /// The identity of the endpoint.
    pub endpoint: Uuid,
    /// Its name.
    pub name: String,
    /// What it is, as JSON.
    pub definition: String,
    /// When it is run next (microseconds); `None` while it is paused.
    pub next_run: Option<i64>,
    /// Its state.
    pub state: AlertState,
    /// What became of the last attempt to send a message, as JSON.
    pub last_delivery: Option<String>,
}

/// What a run of an alert changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// When it is run next, unless it is paused.
    pub next_run: i64,
    /// Its state from now on.
    pub state: AlertState,
    /// What the run found, as JSON.
    pub run: String,
    /// The state (`firing`, `resolved`) and the body of the message that it makes.
    pub message: Option<(&'static str, String)>,
    /// When that is sent (microseconds).
    pub now: i64,
}

const ALERTS: &str =
    "SELECT endpoint, name, definition, next_run, occurrence, since, announced, last_fired, last_delivery
    FROM alerts";

/// Brings the alerts of an endpoint to those of a new version. One that is new or has changed is run at once.
pub(super) fn replace(tx: &Transaction<'_>, endpoint: Uuid, new: &[NewAlert], now: i64) -> Result<()> {
    let mut statement = tx.prepare_cached("SELECT name FROM alerts WHERE endpoint = ?1 AND definition IS NOT NULL")?;
    let there: Vec<String> = statement.query_map([endpoint], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    // Read before those of former versions are deleted.
    let of_former = |alert: &NewAlert| -> Result<Option<String>> {
        let Some(former) = &alert.former else { return Ok(None) };
        let sql = "SELECT secret FROM alerts WHERE endpoint = ?1 AND name = ?2";
        Ok(tx.query_row(sql, params![endpoint, former], |row| row.get(0)).optional()?)
    };
    let kept = new.iter().map(of_former).collect::<Result<Vec<_>>>()?;
    for name in there.iter().filter(|name| new.iter().all(|alert| alert.name != **name)) {
        clear(tx, endpoint, name)?;
        tx.execute(
            "UPDATE alerts SET definition = NULL, next_run = ?3, occurrence = NULL, since = NULL, announced = 0,
                 last_fired = NULL, last_delivery = NULL WHERE endpoint = ?1 AND name = ?2",
            params![endpoint, name, NEVER],
        )?;
    }
    tx.execute(
        "DELETE FROM alerts WHERE endpoint = ?1 AND definition IS NULL AND name IN
             (SELECT name FROM alerts WHERE endpoint = ?1 AND definition IS NULL ORDER BY name LIMIT -1 OFFSET ?2)",
        params![endpoint, MOST_KEPT],
    )?;
    for (NewAlert { name, definition, paused, secret, former: _ }, kept) in new.iter().zip(kept) {
        let own = kept.as_ref().unwrap_or(secret);
        tx.execute(
            "INSERT INTO alerts (endpoint, name, definition, secret, next_run) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (endpoint, name) DO UPDATE SET definition = excluded.definition, next_run = excluded.next_run
                 WHERE definition IS NOT excluded.definition",
            params![endpoint, name, definition, own, if *paused { NEVER } else { now }],
        )?;
        if let Some(kept) = kept {
            let sql = "UPDATE alerts SET secret = ?3 WHERE endpoint = ?1 AND name = ?2";
            tx.execute(sql, params![endpoint, name, kept])?;
        }
    }
    Ok(())
}

/// Forgets the secret that is kept for an alert that the current version does not have.
pub(super) fn forget(tx: &Transaction<'_>, endpoint: Uuid, name: &str) -> Result<()> {
    let sql = "DELETE FROM alerts WHERE endpoint = ?1 AND name = ?2 AND definition IS NULL";
    tx.execute(sql, params![endpoint, name])?;
    Ok(())
}

/// Deletes all alerts of an endpoint.
pub(super) fn delete_all(tx: &Transaction<'_>, endpoint: Uuid) -> Result<()> {
    for table in ["alerts", "alert_runs", "alert_messages"] {
        tx.execute(&format!("DELETE FROM {table} WHERE endpoint = ?1"), [endpoint])?;
    }
    Ok(())
}

/// Deletes the runs and messages of an alert.
fn clear(conn: &Connection, endpoint: Uuid, name: &str) -> Result<()> {
    for table in ["alert_runs", "alert_messages"] {
        let sql = format!("DELETE FROM {table} WHERE endpoint = ?1 AND name = ?2");
        conn.execute(&sql, params![endpoint, name])?;
    }
    Ok(())
}

/// The alerts of the current versions of endpoints.
#[derive(Debug, Clone, Copy)]
pub struct AlertTable<'a>(pub &'a Catalog);

impl AlertTable<'_> {
    /// The alerts of the current version of an endpoint, by name.
    pub fn of(self, endpoint: Uuid) -> Result<Vec<AlertRecord>> {
        let conn = self.0.lock();
        let sql = format!("{ALERTS} WHERE endpoint = ?1 AND definition IS NOT NULL ORDER BY name");
        let mut statement = conn.prepare_cached(&sql)?;
        let rows = statement.query_map([endpoint], alert)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// At most so many alerts of all endpoints, each with the name of its endpoint and its last run as JSON: those that
    /// fire first, then by the names of endpoint and alert.
    pub fn all(self, most: usize) -> Result<Vec<(String, AlertRecord, Option<String>)>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(
            "SELECT a.endpoint, a.name, a.definition, a.next_run, a.occurrence, a.since, a.announced, a.last_fired,
                 a.last_delivery, e.name,
                 (SELECT run FROM alert_runs r WHERE r.endpoint = a.endpoint AND r.name = a.name ORDER BY id DESC LIMIT 1)
             FROM alerts a JOIN endpoints e ON e.id = a.endpoint WHERE a.definition IS NOT NULL
             ORDER BY a.occurrence IS NULL, e.name, a.name LIMIT ?1",
        )?;
        let most = i64::try_from(most).unwrap_or(NEVER);
        let rows = statement.query_map([most], |row| Ok((row.get(9)?, alert(row)?, row.get(10)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// One alert of the current version of an endpoint.
    pub fn one(self, endpoint: Uuid, name: &str) -> Result<Option<AlertRecord>> {
        let conn = self.0.lock();
        let sql = format!("{ALERTS} WHERE endpoint = ?1 AND name = ?2 AND definition IS NOT NULL");
        Ok(conn.prepare_cached(&sql)?.query_row(params![endpoint, name], alert).optional()?)
    }

    /// At most so many alerts whose time has come, the longest due first.
    pub fn due(self, now: i64, most: usize) -> Result<Vec<AlertRecord>> {
        let conn = self.0.lock();
        let sql = format!(
            "{ALERTS} WHERE (next_run <= ?1 OR (next_run > ?3 AND next_run != ?4)) AND definition IS NOT NULL
             ORDER BY next_run LIMIT ?2"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let most = i64::try_from(most).unwrap_or(NEVER);
        let rows = statement.query_map(params![now, most, now.saturating_add(LONGEST_WAIT), NEVER], alert)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The alerts that are run after a time (microseconds).
    pub fn after(self, time: i64) -> Result<Vec<AlertRecord>> {
        let conn = self.0.lock();
        let sql = format!("{ALERTS} WHERE next_run > ?1 AND next_run != ?2 AND definition IS NOT NULL");
        let mut statement = conn.prepare_cached(&sql)?;
        let rows = statement.query_map(params![time, NEVER], alert)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The number of alerts of all current versions but that of one endpoint.
    pub fn count_beside(self, endpoint: Uuid) -> Result<usize> {
        let conn = self.0.lock();
        let mut statement =
            conn.prepare_cached("SELECT count(*) FROM alerts WHERE definition IS NOT NULL AND endpoint != ?1")?;
        Ok(statement.query_row([endpoint], |row| row.get::<_, i64>(0)).map(|n| usize::try_from(n).unwrap_or(0))?)
    }

    /// The numbers of alerts, of those that fire, and of messages that wait.
    pub fn count(self) -> Result<(u64, u64, u64)> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(
            "SELECT count(*), count(occurrence), (SELECT count(*) FROM alert_messages) FROM alerts
             WHERE definition IS NOT NULL",
        )?;
        let count = |row: &Row<'_>, column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(statement.query_row([], |row| Ok((count(row, 0)?, count(row, 1)?, count(row, 2)?)))?)
    }

    /// Runs an alert at another time. Nothing changes if it is paused by now.
    pub fn reschedule(self, endpoint: Uuid, name: &str, next_run: i64) -> Result<()> {
        let sql = "UPDATE alerts SET next_run = ?3 WHERE endpoint = ?1 AND name = ?2 AND next_run != ?4";
        self.0.lock().execute(sql, params![endpoint, name, next_run, NEVER])?;
        Ok(())
    }

    /// Writes what a run found, the state that follows, and its message. Returns false and writes nothing if the alert is
    /// another one by now.
    pub fn finish_run(self, before: &AlertRecord, outcome: &RunOutcome) -> Result<bool> {
        let AlertRecord { endpoint, name, definition, .. } = before;
        let RunOutcome { next_run, state, run, message, now } = outcome;
        let (occurrence, since) = state.occurrence.unzip();
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changed = tx.execute(
            "UPDATE alerts SET next_run = iif(next_run = ?4, next_run, ?5), occurrence = ?6, since = ?7, announced = ?8,
                 last_fired = ?9 WHERE endpoint = ?1 AND name = ?2 AND definition = ?3",
            params![endpoint, name, definition, NEVER, next_run, occurrence, since, state.announced, state.last_fired],
        )?;
        if changed == 0 {
            return Ok(false);
        }
        tx.execute("INSERT INTO alert_runs (endpoint, name, run) VALUES (?1, ?2, ?3)", params![endpoint, name, run])?;
        keep(&tx, "alert_runs", *endpoint, name, MOST_RUNS)?;
        if let Some((state, body)) = message {
            tx.execute(
                "INSERT INTO alert_messages (endpoint, name, state, body, next_try) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![endpoint, name, state, body, now],
            )?;
            keep(&tx, "alert_messages", *endpoint, name, MOST_MESSAGES)?;
        }
        tx.commit()?;
        Ok(true)
    }

    /// The last runs of an alert as JSON, the newest first.
    pub fn runs(self, endpoint: Uuid, name: &str) -> Result<Vec<String>> {
        let conn = self.0.lock();
        let mut statement =
            conn.prepare_cached("SELECT run FROM alert_runs WHERE endpoint = ?1 AND name = ?2 ORDER BY id DESC")?;
        let rows = statement.query_map(params![endpoint, name], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The secret of an alert of the current version.
    pub fn secret(self, endpoint: Uuid, name: &str) -> Result<Option<String>> {
        let conn = self.0.lock();
        let sql = "SELECT secret FROM alerts WHERE endpoint = ?1 AND name = ?2 AND definition IS NOT NULL";
        Ok(conn.prepare_cached(sql)?.query_row(params![endpoint, name], |row| row.get(0)).optional()?)
    }

    /// Gives an alert another secret. Returns false if there is no such alert.
    pub fn set_secret(self, endpoint: Uuid, name: &str, secret: &str) -> Result<bool> {
        let sql = "UPDATE alerts SET secret = ?3 WHERE endpoint = ?1 AND name = ?2 AND definition IS NOT NULL";
        Ok(self.0.lock().execute(sql, params![endpoint, name, secret])? > 0)
    }
}

/// Deletes all but the newest rows of an alert.
fn keep(tx: &Transaction<'_>, table: &str, endpoint: Uuid, name: &str, most: i64) -> Result<()> {
    let sql = format!(
        "DELETE FROM {table} WHERE endpoint = ?1 AND name = ?2 AND id <=
             (SELECT id FROM {table} WHERE endpoint = ?1 AND name = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)"
    );
    tx.execute(&sql, params![endpoint, name, most])?;
    Ok(())
}

fn alert(row: &Row<'_>) -> rusqlite::Result<AlertRecord> {
    let next_run: i64 = row.get(3)?;
    let occurrence: Option<Uuid> = row.get(4)?;
    Ok(AlertRecord {
        endpoint: row.get(0)?,
        name: row.get(1)?,
        definition: row.get(2)?,
        next_run: (next_run != NEVER).then_some(next_run),
        state: AlertState { occurrence: occurrence.zip(row.get(5)?), announced: row.get(6)?, last_fired: row.get(7)? },
        last_delivery: row.get(8)?,
    })
}
