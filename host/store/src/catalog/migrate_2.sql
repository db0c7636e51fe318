-- From version 1 to version 2; see schema.sql for what the new parts mean.

ALTER TABLE sources ADD COLUMN retention_seconds INTEGER;
ALTER TABLE sources ADD COLUMN retention_bytes INTEGER;
ALTER TABLE endpoints ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE endpoints ADD COLUMN sources TEXT NOT NULL DEFAULT '{}';
ALTER TABLE endpoint_versions ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE endpoint_versions ADD COLUMN sources TEXT NOT NULL DEFAULT '{}';

-- Counts every change of tokens and endpoints, whoever makes it: a server that runs compares the
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
CREATE TRIGGER endpoints_insert AFTER INSERT ON endpoints BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER endpoints_update AFTER UPDATE ON endpoints BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
CREATE TRIGGER endpoints_delete AFTER DELETE ON endpoints BEGIN
    UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'tokens_generation';
END;
