//! Access tokens in the catalog.

use chrono::Utc;
use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};
use tidegate_store::{Catalog, StoreError};
use uuid::Uuid;

use super::Result;

/// An access token. The token itself is not stored, only its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Identity.
    pub id: Uuid,
    /// SHA-256 of the token.
    pub hash: Vec<u8>,
    /// Its purpose, for people.
    pub description: String,
    /// What it allows.
    pub scopes: String,
    /// Values of parameters that it fixes, as a JSON object.
    pub pinned: String,
    /// Limits of its requests, as a JSON object.
    pub limits: String,
    /// The status of errors of its queries, if it says so.
    pub errors: Option<String>,
    /// Microseconds since 1970, UTC.
    pub created_at: i64,
    /// When it expires, if ever.
    pub expires_at: Option<i64>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<i64>,
    /// When it was last used, as far as that was written.
    pub last_used: Option<i64>,
}

/// The access tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenTable<'a>(pub &'a Catalog);

impl TokenTable<'_> {
    /// Saves a new token.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when the identity or the hash is there already.
    pub fn put(self, token: &TokenRecord) -> Result<()> {
        let inserted = self.0.lock().execute(
            "INSERT INTO tokens
                 (id, hash, description, scopes, pinned, limits, errors, created_at, expires_at, revoked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
            params![
                token.id,
                token.hash,
                token.description,
                token.scopes,
                token.pinned,
                token.limits,
                token.errors,
                token.created_at,
                token.expires_at,
                token.revoked_at
            ],
        )?;
        if inserted == 0 {
            return Err(StoreError::Exists(format!("token {}", token.id)));
        }
        Ok(())
    }

    /// All tokens, oldest first.
    pub fn all(self) -> Result<Vec<TokenRecord>> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(&format!("{TOKENS} ORDER BY created_at, id"))?;
        let rows = statement.query_map([], token)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Revokes a token. Returns false if there is none or it was revoked before.
    pub fn revoke(self, id: Uuid) -> Result<bool> {
        let changed = self.0.lock().execute(
            "UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id, Utc::now().timestamp_micros()],
        )?;
        Ok(changed > 0)
    }

    /// Writes when tokens were last used (identity, microseconds). What is there and later stays.
    pub fn record_uses(self, uses: &[(Uuid, i64)]) -> Result<()> {
        let mut conn = self.0.lock();
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut statement = tx.prepare_cached(
                "INSERT INTO token_uses (id, last_used) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET last_used = max(last_used, excluded.last_used)",
            )?;
            for (id, time) in uses {
                statement.execute(params![id, time])?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    /// A number that grows with every change of a token or an endpoint, by this process or another one that has the
    /// catalog open. A caller that caches tokens compares it before it uses the cache. Costs one lookup.
    pub fn generation(self) -> Result<u64> {
        let conn = self.0.lock();
        let mut statement =
            conn.prepare_cached("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'tokens_generation'")?;
        Ok(statement.query_row([], |row| row.get::<_, i64>(0)).optional()?.unwrap_or(0).cast_unsigned())
    }
}

const TOKENS: &str =
    "SELECT id, hash, description, scopes, pinned, limits, errors, created_at, expires_at, revoked_at, last_used
    FROM tokens LEFT JOIN token_uses USING (id)";

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRecord> {
    Ok(TokenRecord {
        id: row.get(0)?,
        hash: row.get(1)?,
        description: row.get(2)?,
        scopes: row.get(3)?,
        pinned: row.get(4)?,
        limits: row.get(5)?,
        errors: row.get(6)?,
        created_at: row.get(7)?,
        expires_at: row.get(8)?,
        revoked_at: row.get(9)?,
        last_used: row.get(10)?,
    })
}
