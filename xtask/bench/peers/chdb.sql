-- The tables of chDB (ClickHouse in the process).
CREATE TABLE edge (
  id String, timestamp DateTime64(6, 'UTC'), project LowCardinality(String), event_message String, request_id String,
  method LowCardinality(String), path String, search Nullable(String), url String, host LowCardinality(String),
  user_agent LowCardinality(String), country LowCardinality(String), city LowCardinality(String),
  colo LowCardinality(String), cache_status LowCardinality(String), auth_user Nullable(String),
  role LowCardinality(Nullable(String)), status_code UInt16, origin_time UInt32, content_length UInt32, metadata String
) ENGINE = MergeTree ORDER BY (project, timestamp);
CREATE TABLE function_output (
  id String, timestamp DateTime64(6, 'UTC'), project LowCardinality(String), event_message String,
  event_type LowCardinality(String), level LowCardinality(String), function_id LowCardinality(String),
  execution_id String, request_id String, metadata String
) ENGINE = MergeTree ORDER BY (project, timestamp);
