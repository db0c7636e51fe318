-- The tables of PostgreSQL: the metadata stays JSON. The indexes are made when the tables are filled.
CREATE TABLE edge (id text, timestamp timestamptz, project text, event_message text, metadata jsonb);
CREATE TABLE function_output (id text, timestamp timestamptz, project text, event_message text, metadata jsonb);
