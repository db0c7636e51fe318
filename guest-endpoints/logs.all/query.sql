-- The logs of one project, newest first: one table for each service. The statement below reads
-- edge_logs; ad-hoc queries may read all nine. An empty or missing bound is no bound.
WITH
-- API gateway and edge requests
edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- database server
postgres_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `postgres.logs` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- edge-function relay
function_edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `deno-relay-logs` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- edge-function runtime
function_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `deno-subhosting-events` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- authentication service
auth_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `gotrue.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- realtime service
realtime_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `realtime.logs.prod` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- object storage service
storage_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `storage.logs.prod.2` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- REST over the database
postgrest_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `postgREST.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- connection pooler
pgbouncer_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `pgbouncer.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
)
SELECT id, timestamp, event_message, metadata
FROM edge_logs
ORDER BY timestamp DESC
LIMIT 100
