-- From version 3 to version 4; see schema.sql for what the new parts mean.

ALTER TABLE sources ADD COLUMN seen TEXT;
ALTER TABLE segments ADD COLUMN checksum INTEGER;
ALTER TABLE segments ADD COLUMN first_seq INTEGER;
ALTER TABLE segments ADD COLUMN last_seq INTEGER;
CREATE TABLE dropped (
    id     BLOB PRIMARY KEY,
    source BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ingest_keys (
    source       INTEGER NOT NULL REFERENCES sources (key),
    name         BLOB NOT NULL,
    body         BLOB NOT NULL,
    seq          INTEGER NOT NULL,
    rows         INTEGER NOT NULL,
    future_times INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (source, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ingest_keys_by_age ON ingest_keys (source, created_at);
