-- From version 8 to version 9; see schema.sql for what the new parts mean.

ALTER TABLE sources ADD COLUMN tenant TEXT;
ALTER TABLE segments ADD COLUMN tenant_path TEXT;

CREATE TABLE denied (
    id         BLOB PRIMARY KEY,
    issuer     TEXT NOT NULL,
    claim      TEXT NOT NULL,
    value      TEXT NOT NULL,
    until      INTEGER NOT NULL,
    reason     TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    UNIQUE (issuer, claim, value)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER denied_insert AFTER INSERT ON denied BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER denied_update AFTER UPDATE ON denied BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER denied_delete AFTER DELETE ON denied BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
