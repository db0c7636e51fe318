-- The tables of DuckDB. They are filled from CSV in the order of the records, and sorted by project and time at the
-- end: DuckDB skips row groups by the smallest and largest value of a column.
CREATE TABLE edge (
  id VARCHAR, timestamp TIMESTAMP, project VARCHAR, event_message VARCHAR, request_id VARCHAR, method VARCHAR,
  path VARCHAR, search VARCHAR, url VARCHAR, host VARCHAR, user_agent VARCHAR, country VARCHAR, city VARCHAR,
  colo VARCHAR, cache_status VARCHAR, auth_user VARCHAR, role VARCHAR, status_code USMALLINT, origin_time UINTEGER,
  content_length UINTEGER, metadata VARCHAR
);
CREATE TABLE function_output (
  id VARCHAR, timestamp TIMESTAMP, project VARCHAR, event_message VARCHAR, event_type VARCHAR, level VARCHAR,
  function_id VARCHAR, execution_id VARCHAR, request_id VARCHAR, metadata VARCHAR
);
