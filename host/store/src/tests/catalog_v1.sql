-- A frozen copy of the catalog's schema as version 1 had it; the migrations are tested against it. Never change it.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sources (
    key        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    shape      TEXT NOT NULL,           -- JSON: the schema that the segments have grown to
    created_at INTEGER NOT NULL
) STRICT;

-- Acknowledged events that no segment holds yet: one row per ingest call.
CREATE TABLE wal (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER NOT NULL REFERENCES sources (key),
    body   BLOB NOT NULL                -- JSON array of normalised events
) STRICT;

CREATE TABLE segments (
    id          BLOB PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES sources (key),
    rows        INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,       -- length of the file
    min_time    INTEGER NOT NULL,
    max_time    INTEGER NOT NULL,
    projects    TEXT,                   -- JSON array of the values of `project`; NULL: too many, or not text
    columns     TEXT NOT NULL,          -- JSON: name -> type of the file's own columns
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX segments_by_source ON segments (source, max_time);

CREATE TABLE endpoints (
    id         BLOB PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    manifest   TEXT NOT NULL,
    component  TEXT NOT NULL REFERENCES components (digest),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoint_versions (
    id         BLOB NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    manifest   TEXT NOT NULL,
    component  TEXT NOT NULL REFERENCES components (digest),
    created_at INTEGER NOT NULL,
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
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;
