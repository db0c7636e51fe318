-- The logs of one project, newest first: one table for each service. The statement below reads
-- edge_logs; ad-hoc queries may read all. An empty or missing bound is no bound. The identifier is
-- the record's own; the project where it has none, which is all that self-hosted shippers send.
WITH
-- API gateway and edge requests
edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- database server
postgres_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `postgres.logs` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- edge-function relay
function_edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.metadata[SAFE_OFFSET(0)].project_ref) AS identifier
  FROM `deno-relay-logs` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- edge-function runtime
function_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.metadata[SAFE_OFFSET(0)].project_ref) AS identifier
  FROM `deno-subhosting-events` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- authentication service
auth_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `gotrue.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- realtime service
realtime_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.metadata[SAFE_OFFSET(0)].project) AS identifier
  FROM `realtime.logs.prod` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- object storage service
storage_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.metadata[SAFE_OFFSET(0)].project) AS identifier
  FROM `storage.logs.prod.2` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- REST over the database
postgrest_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `postgREST.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- connection pooler
pgbouncer_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `pgbouncer.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- shared connection pooler
supavisor_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.metadata[SAFE_OFFSET(0)].project) AS identifier
  FROM `supavisor.logs.prod` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- changes to accounts, as the authentication service tells them
auth_audit_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `gotrue.audit.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- upgrades of the database
pg_upgrade_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `pg_upgrade.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- replication out of the database
etl_replication_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier, t.pipeline_id
  FROM `etl.replication.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
),
-- jobs of the database: the lines of postgres_logs that are about them
pg_cron_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata, COALESCE(JSON_VALUE(TO_JSON_STRING(t.identifier), '$'), t.project) AS identifier
  FROM `postgres.logs` AS t
  WHERE t.project = @project
    AND (t.metadata[SAFE_OFFSET(0)].parsed[SAFE_OFFSET(0)].application_name = 'pg_cron' OR REGEXP_CONTAINS(t.event_message, 'cron job'))
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
  ORDER BY t.timestamp DESC
)
SELECT id, timestamp, event_message, metadata
FROM edge_logs
ORDER BY timestamp DESC
LIMIT 100
