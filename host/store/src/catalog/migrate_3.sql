-- From version 2 to version 3; see schema.sql for what the new parts mean.

ALTER TABLE tokens ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
