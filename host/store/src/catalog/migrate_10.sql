-- From version 9 to version 10; see schema.sql for what the new parts mean.

ALTER TABLE dropped ADD COLUMN dropped_at INTEGER;
