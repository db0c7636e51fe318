-- From version 4 to version 5; see schema.sql for what the new parts mean.

ALTER TABLE tokens ADD COLUMN errors TEXT;
