-- From version 6 to version 7; see schema.sql for what the new parts mean.

CREATE TABLE alerts (
    endpoint      BLOB NOT NULL,
    name          TEXT NOT NULL,
    definition    TEXT,
    secret        TEXT NOT NULL,
    next_run      INTEGER NOT NULL,
    occurrence    BLOB,
    since         INTEGER,
    announced     INTEGER NOT NULL DEFAULT 0,
    last_fired    INTEGER,
    last_delivery TEXT,
    PRIMARY KEY (endpoint, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX alerts_by_next_run ON alerts (next_run);
CREATE TABLE alert_runs (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint BLOB NOT NULL,
    name     TEXT NOT NULL,
    run      TEXT NOT NULL
) STRICT;
CREATE INDEX alert_runs_by_alert ON alert_runs (endpoint, name, id);
CREATE TABLE alert_messages (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint BLOB NOT NULL,
    name     TEXT NOT NULL,
    state    TEXT NOT NULL,
    body     TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_try INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_messages_by_alert ON alert_messages (endpoint, name, id);
CREATE INDEX alert_messages_by_next_try ON alert_messages (next_try);
