-- From version 3 to version 4; see schema.sql for what the new parts mean.

ALTER TABLE segments ADD COLUMN checksum INTEGER;
ALTER TABLE segments ADD COLUMN first_seq INTEGER;
ALTER TABLE segments ADD COLUMN last_seq INTEGER;
CREATE TABLE dropped (
    id     BLOB PRIMARY KEY,
    source BLOB NOT NULL
) STRICT, WITHOUT ROWID;
