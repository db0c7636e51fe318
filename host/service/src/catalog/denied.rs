//! Tokens of issuers that are refused before they end, in the catalog.

use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};
use tidegate_store::Catalog;
use uuid::Uuid;

use super::Result;

/// Tokens of an issuer that are refused until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedRecord {
    /// Identity.
    pub id: Uuid,
    /// The `iss` of the tokens, byte for byte.
    pub issuer: String,
    /// The claim that says which tokens: `sub` or `jti`.
    pub claim: String,
    /// The value of that claim.
    pub value: String,
    /// When they are no longer refused: microseconds since 1970, UTC.
    pub until: i64,
    /// Why, for people.
    pub reason: String,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
}

/// The deny list.
#[derive(Debug, Clone, Copy)]
pub struct DenialTable<'a>(pub &'a Catalog);

impl DenialTable<'_> {
    /// Denies tokens. If there is an entry for the same value, it gets the new end and reason, and keeps its identity and its
    /// time. Entries that are over at `record.created_at` are deleted. Returns the entry as it is stored; none if there are
    /// `most` of them already, and no one is for this value.
    pub fn deny(self, record: &DeniedRecord, most: usize) -> Result<Option<DeniedRecord>> {
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute(DELETE_ENDED, [record.created_at])?;
        let by_value = format!("{DENIED} WHERE issuer = ?1 AND claim = ?2 AND value = ?3");
        let value = params![record.issuer, record.claim, record.value];
        let known = tx.query_row(&by_value, value, denied).optional()?;
        if known.is_none() {
            let count: i64 = tx.query_row("SELECT count(*) FROM denied", [], |row| row.get(0))?;
            if usize::try_from(count).unwrap_or(usize::MAX) >= most {
                return Ok(None);
            }
        }
        let (id, created_at) = known.map_or((record.id, record.created_at), |known| (known.id, known.created_at));
        let stored = DeniedRecord { id, created_at, ..record.clone() };
        tx.execute(
            "INSERT INTO denied (id, issuer, claim, value, until, reason, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT DO UPDATE SET until = excluded.until, reason = excluded.reason",
            params![
                stored.id,
                stored.issuer,
                stored.claim,
                stored.value,
                stored.until,
                stored.reason,
                stored.created_at
            ],
        )?;
        tx.commit()?;
        Ok(Some(stored))
    }

    /// Everything that is denied at `now` (microseconds since 1970), oldest first.
    pub fn at(self, now: i64) -> Result<Vec<DeniedRecord>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(&format!("{DENIED} WHERE until > ?1 ORDER BY created_at, id"))?;
        let rows = statement.query_map([now], denied)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Deletes an entry, so that its tokens are good again. Returns false if there is none.
    pub fn allow(self, id: Uuid) -> Result<bool> {
        Ok(self.0.lock().execute("DELETE FROM denied WHERE id = ?1", params![id])? > 0)
    }

    /// Deletes the entries that are over at `now` (microseconds since 1970).
    pub fn drop_ended(self, now: i64) -> Result<()> {
        self.0.lock().execute(DELETE_ENDED, [now])?;
        Ok(())
    }
}

const DENIED: &str = "SELECT id, issuer, claim, value, until, reason, created_at FROM denied";
const DELETE_ENDED: &str = "DELETE FROM denied WHERE until <= ?1";

fn denied(row: &Row<'_>) -> rusqlite::Result<DeniedRecord> {
    Ok(DeniedRecord {
        id: row.get(0)?,
        issuer: row.get(1)?,
        claim: row.get(2)?,
        value: row.get(3)?,
        until: row.get(4)?,
        reason: row.get(5)?,
        created_at: row.get(6)?,
    })
}
