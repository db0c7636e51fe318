-- From version 8 to version 9; see schema.sql for what the new parts mean.

ALTER TABLE sources ADD COLUMN tenant TEXT;
