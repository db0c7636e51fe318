//! Messages of alerts in the catalog, until they are confirmed. A run writes them ([`super::AlertTable::finish_run`]).

use rusqlite::{TransactionBehavior, params};
use tidegate_store::Catalog;
use uuid::Uuid;

use super::Result;
use super::alerts::LONGEST_WAIT;

/// A message that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertMessage {
    /// Its number.
    pub id: i64,
    /// When it is tried next (microseconds).
    pub next_try: i64,
    /// The endpoint of its alert.
    pub endpoint: Uuid,
    /// The name of its alert.
    pub name: String,
    /// `firing` or `resolved`.
    pub state: String,
    /// The body, JSON.
    pub body: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What the alert is, as JSON.
    pub definition: String,
    /// The secret of the alert.
    pub secret: String,
}

/// The messages that are not confirmed.
#[derive(Debug, Clone, Copy)]
pub struct AlertMessageTable<'a>(pub &'a Catalog);

impl AlertMessageTable<'_> {
    /// At most so many messages whose time has come: of each alert the oldest that waits, because a message is not sent
    /// before the one ahead of it. In the order of their times and numbers, from behind `after` on.
    pub fn due(self, now: i64, after: Option<(i64, i64)>, most: usize) -> Result<Vec<AlertMessage>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(
            "SELECT m.id, m.endpoint, m.name, m.state, m.body, m.attempts, a.definition, a.secret, m.next_try
             FROM alert_messages m JOIN alerts a ON a.endpoint = m.endpoint AND a.name = m.name
             WHERE (m.next_try <= ?1 OR m.next_try > ?3) AND a.definition IS NOT NULL AND NOT EXISTS
                 (SELECT 1 FROM alert_messages f WHERE f.endpoint = m.endpoint AND f.name = m.name AND f.id < m.id)
                 AND (m.next_try, m.id) > (?4, ?5)
             ORDER BY m.next_try, m.id LIMIT ?2",
        )?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let (time, id) = after.unwrap_or((i64::MIN, i64::MIN));
        let rows = statement.query_map(params![now, most, now.saturating_add(LONGEST_WAIT), time, id], |row| {
            Ok(AlertMessage {
                id: row.get(0)?,
                endpoint: row.get(1)?,
                name: row.get(2)?,
                state: row.get(3)?,
                body: row.get(4)?,
                attempts: row.get(5)?,
                definition: row.get(6)?,
                secret: row.get(7)?,
                next_try: row.get(8)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Brings messages forward that wait longer than `longest` says for the number of their attempts (microseconds): their
    /// times were written while the clock was ahead. Returns how many they are.
    pub fn hasten(self, now: i64, longest: impl Fn(u32) -> i64) -> Result<usize> {
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut read = tx.prepare_cached("SELECT id, attempts, next_try FROM alert_messages WHERE next_try > ?1")?;
        let waiting: Vec<(i64, u32, i64)> = read
            .query_map([now], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        drop(read);
        let mut changed = 0;
        for (id, attempts, next_try) in waiting {
            let time = now.saturating_add(longest(attempts));
            if next_try > time {
                tx.prepare_cached("UPDATE alert_messages SET next_try = ?2 WHERE id = ?1")?.execute([id, time])?;
                changed += 1;
            }
        }
        tx.commit()?;
        Ok(changed)
    }

    /// Whether a message still waits and was tried just so often.
    pub fn waits(self, id: i64, attempts: u32) -> Result<bool> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached("SELECT 1 FROM alert_messages WHERE id = ?1 AND attempts = ?2")?;
        Ok(statement.exists(params![id, attempts])?)
    }

    /// Writes what became of an attempt to send a message: `delivery` as JSON, and when it is tried again (microseconds).
    /// Without that time it is done with, confirmed or given up. It may be written again after a failure.
    pub fn finish_attempt(self, message: &AlertMessage, delivery: &str, next_try: Option<i64>) -> Result<()> {
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match next_try {
            Some(time) => tx.execute(
                "UPDATE alert_messages SET attempts = ?3, next_try = ?2 WHERE id = ?1",
                params![message.id, time, message.attempts.saturating_add(1)],
            )?,
            None => tx.execute("DELETE FROM alert_messages WHERE id = ?1", [message.id])?,
        };
        tx.execute(
            "UPDATE alerts SET last_delivery = ?3 WHERE endpoint = ?1 AND name = ?2 AND definition IS NOT NULL",
            params![message.endpoint, message.name, delivery],
        )?;
        tx.commit()?;
        Ok(())
    }
}
