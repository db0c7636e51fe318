-- From version 7 to version 8; see schema.sql for what the new parts mean.

CREATE TABLE token_uses (
    id        BLOB PRIMARY KEY,
    last_used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
