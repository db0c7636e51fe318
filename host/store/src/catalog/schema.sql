-- The catalog, version 9. Times are microseconds since 1970, UTC; identities are UUIDs (16 bytes).

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sources (
    key        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    shape      TEXT NOT NULL,           -- JSON: the schema that the segments have grown to
    created_at INTEGER NOT NULL,
    retention_seconds INTEGER,          -- how long rows are kept; NULL: as the server's options say
    retention_bytes   INTEGER,          -- how large the segments may grow; NULL: likewise
    seen       TEXT,                    -- JSON: when the newest segment with each path was made; NULL: not remembered
    tenant     TEXT                     -- JSON: whose its rows are; NULL: it does not say
) STRICT;

-- Acknowledged events that no segment holds yet: one row per ingest call.
CREATE TABLE wal (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER NOT NULL REFERENCES sources (key),
    body   BLOB NOT NULL                -- JSON array of normalised events
) STRICT;

-- Requests of events that were given a name, so that they can be sent again: what they were answered.
CREATE TABLE IF NOT EXISTS ingest_keys (
    source       INTEGER NOT NULL REFERENCES sources (key),
    name         BLOB NOT NULL,         -- SHA-256 of the name and its sender
    body         BLOB NOT NULL,         -- SHA-256 of the body
    seq          INTEGER NOT NULL,      -- the row of `wal` that had its events
    rows         INTEGER NOT NULL,
    future_times INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (source, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ingest_keys_by_age ON ingest_keys (source, created_at);

CREATE TABLE segments (
    id          BLOB PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES sources (key),
    rows        INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,       -- length of the file
    min_time    INTEGER NOT NULL,
    max_time    INTEGER NOT NULL,
    projects    TEXT,                   -- JSON array of the values of `project`, where `runs` is NULL; NULL: too many, or not text
    columns     TEXT NOT NULL,          -- JSON: name -> type of the file's own columns
    created_at  INTEGER NOT NULL,
    checksum    INTEGER,                -- root of the file's checksums; NULL: written before there were any
    first_seq   INTEGER,                -- the write-ahead rows that it was made of; NULL: likewise
    last_seq    INTEGER,
    runs        TEXT,                   -- JSON array: the parts of the file by tenant; NULL: it has none
    tenant_path TEXT                    -- JSON array: the names that lead to the field of the tenant; NULL: `project`
) STRICT, WITHOUT ROWID;
CREATE INDEX segments_by_source ON segments (source, max_time);

-- Segments that were dropped, and deleted sources (id = source), until their files are gone: what
-- tells them from files that the catalog should name and does not.
CREATE TABLE dropped (
    id     BLOB PRIMARY KEY,
    source BLOB NOT NULL,               -- identity
    replaced_by BLOB,                   -- the segment that has its rows now; NULL: nothing has them
    dropped_at  INTEGER                 -- when it was dropped, by the age clock; NULL: its rows are elsewhere, or not known
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoints (
    id         BLOB PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    manifest   TEXT NOT NULL,
    component  TEXT NOT NULL REFERENCES components (digest),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    author     TEXT NOT NULL DEFAULT '',
    sources    TEXT NOT NULL DEFAULT '{}'  -- JSON: name of a source in the saved query -> its id
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoint_versions (
    id         BLOB NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    manifest   TEXT NOT NULL,
    component  TEXT NOT NULL REFERENCES components (digest),
    created_at INTEGER NOT NULL,
    author     TEXT NOT NULL DEFAULT '',
    sources    TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE components (
    digest TEXT PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE tokens (
    id          BLOB PRIMARY KEY,
    hash        BLOB NOT NULL UNIQUE,
    description TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    pinned      TEXT NOT NULL,          -- JSON object
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER,
    limits      TEXT NOT NULL DEFAULT '{}', -- JSON: limits of its requests, by their names in the configuration
    errors      TEXT                    -- with which status errors are answered; NULL is as the endpoint or the server says
) STRICT, WITHOUT ROWID;

-- When a token was last used. A table of its own: a use is no change of the token, which all processes would notice.
CREATE TABLE token_uses (
    id        BLOB PRIMARY KEY,         -- identity of the token
    last_used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tokens of issuers that are refused before they end, a bounded number. When an entry is over, it is deleted.
CREATE TABLE denied (
    id         BLOB PRIMARY KEY,
    issuer     TEXT NOT NULL,           -- iss of the tokens
    claim      TEXT NOT NULL,           -- which claim names them: sub, jti
    value      TEXT NOT NULL,
    until      INTEGER NOT NULL,
    reason     TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    UNIQUE (issuer, claim, value)
) STRICT, WITHOUT ROWID;

-- The alerts of endpoints, each with its state. What it is stands in the manifest of the endpoint's current version;
-- saving a version writes both in one transaction.
CREATE TABLE alerts (
    endpoint      BLOB NOT NULL,        -- identity
    name          TEXT NOT NULL,
    definition    TEXT,                 -- JSON, as in the manifest; NULL: the current version has it no more, its secret is kept
    secret        TEXT NOT NULL,        -- signs its messages
    next_run      INTEGER NOT NULL,     -- the largest number: it is paused, or the current version has it no more
    occurrence    BLOB,                 -- the one that goes on, if it fires
    since         INTEGER,              -- when that began
    announced     INTEGER NOT NULL DEFAULT 0, -- 1: its message was made
    last_fired    INTEGER,              -- when the last message was made that it fires
    last_delivery TEXT,                 -- JSON: what became of the last attempt to send a message
    PRIMARY KEY (endpoint, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX alerts_by_next_run ON alerts (next_run);

-- The last runs of each alert, a bounded number.
CREATE TABLE alert_runs (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint BLOB NOT NULL,
    name     TEXT NOT NULL,
    run      TEXT NOT NULL              -- JSON
) STRICT;
CREATE INDEX alert_runs_by_alert ON alert_runs (endpoint, name, id);

-- Messages of alerts until a receiver has confirmed them or they are given up; those of one alert are sent in order.
CREATE TABLE alert_messages (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint BLOB NOT NULL,
    name     TEXT NOT NULL,
    state    TEXT NOT NULL,             -- firing, resolved
    body     TEXT NOT NULL,             -- JSON
    attempts INTEGER NOT NULL DEFAULT 0,
    next_try INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_messages_by_alert ON alert_messages (endpoint, name, id);
CREATE INDEX alert_messages_by_next_try ON alert_messages (next_try);

-- Counts every change of tokens, denied ones and endpoints, whoever makes it: a server that runs compares the
-- number to notice what another process did to the same file.
INSERT INTO meta (key, value) VALUES ('tokens_generation', '0');
CREATE TRIGGER tokens_insert AFTER INSERT ON tokens BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER tokens_update AFTER UPDATE ON tokens BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER tokens_delete AFTER DELETE ON tokens BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER denied_insert AFTER INSERT ON denied BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER denied_update AFTER UPDATE ON denied BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER denied_delete AFTER DELETE ON denied BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER endpoints_insert AFTER INSERT ON endpoints BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER endpoints_update AFTER UPDATE ON endpoints BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER endpoints_delete AFTER DELETE ON endpoints BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
