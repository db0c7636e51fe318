-- From version 5 to version 6; see schema.sql for what the new parts mean.

ALTER TABLE segments ADD COLUMN runs TEXT;
ALTER TABLE dropped ADD COLUMN replaced_by BLOB;
