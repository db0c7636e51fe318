-- How many logs of each service told of errors and warnings, in time buckets. What a log tells of
-- its level or its status decides; a bucket in which no service logged anything is not there.
WITH
postgres_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].parsed[SAFE_OFFSET(0)].error_severity AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].parsed[SAFE_OFFSET(0)].error_severity AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `postgres.logs` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
auth_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') OR SAFE_CAST(t.metadata[SAFE_OFFSET(0)].status AS INT64) >= 500 THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') OR SAFE_CAST(t.metadata[SAFE_OFFSET(0)].status AS INT64) >= 400 THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `gotrue.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
function_edge_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) >= 500 THEN 'error'
      WHEN SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) >= 400 THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `deno-relay-logs` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
storage_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `storage.logs.prod.2` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
realtime_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `realtime.logs.prod` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
postgrest_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `postgREST.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
edge_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) >= 500 THEN 'error'
      WHEN SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) >= 400 THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
supavisor_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `supavisor.logs.prod` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
function_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `deno-subhosting-events` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
),
etl_replication_logs AS (
  SELECT
    CASE @granularity
      WHEN 'minute' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hour' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE
      WHEN LOWER(SAFE_CAST(JSON_VALUE(t.event_message, '$.level') AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(JSON_VALUE(t.event_message, '$.level') AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `etl.replication.logs.prod` AS t
  WHERE t.project = @project
    AND CASE WHEN COALESCE(@iso_timestamp_start, '') = '' THEN TRUE ELSE t.timestamp > CAST(@iso_timestamp_start AS TIMESTAMP) END
    AND CASE WHEN COALESCE(@iso_timestamp_end, '') = '' THEN TRUE ELSE t.timestamp <= CAST(@iso_timestamp_end AS TIMESTAMP) END
)
SELECT
  FORMAT_TIMESTAMP('%Y-%m-%dT%H:%M:%SZ', bucket) AS timestamp,
  STRUCT(
    COUNTIF(service = 'postgres_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'postgres_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'postgres_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'postgres_logs') AS total
  ) AS postgres_logs,
  STRUCT(
    COUNTIF(service = 'auth_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'auth_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'auth_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'auth_logs') AS total
  ) AS auth_logs,
  STRUCT(
    COUNTIF(service = 'function_edge_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'function_edge_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'function_edge_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'function_edge_logs') AS total
  ) AS function_edge_logs,
  STRUCT(
    COUNTIF(service = 'storage_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'storage_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'storage_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'storage_logs') AS total
  ) AS storage_logs,
  STRUCT(
    COUNTIF(service = 'realtime_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'realtime_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'realtime_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'realtime_logs') AS total
  ) AS realtime_logs,
  STRUCT(
    COUNTIF(service = 'postgrest_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'postgrest_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'postgrest_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'postgrest_logs') AS total
  ) AS postgrest_logs,
  STRUCT(
    COUNTIF(service = 'edge_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'edge_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'edge_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'edge_logs') AS total
  ) AS edge_logs,
  STRUCT(
    COUNTIF(service = 'supavisor_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'supavisor_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'supavisor_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'supavisor_logs') AS total
  ) AS supavisor_logs,
  STRUCT(
    COUNTIF(service = 'function_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'function_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'function_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'function_logs') AS total
  ) AS function_logs,
  STRUCT(
    COUNTIF(service = 'etl_replication_logs' AND outcome = 'ok') AS ok,
    COUNTIF(service = 'etl_replication_logs' AND outcome = 'warning') AS warning,
    COUNTIF(service = 'etl_replication_logs' AND outcome = 'error') AS error,
    COUNTIF(service = 'etl_replication_logs') AS total
  ) AS etl_replication_logs
FROM (
  SELECT 'postgres_logs' AS service, bucket, outcome FROM postgres_logs
  UNION ALL
  SELECT 'auth_logs' AS service, bucket, outcome FROM auth_logs
  UNION ALL
  SELECT 'function_edge_logs' AS service, bucket, outcome FROM function_edge_logs
  UNION ALL
  SELECT 'storage_logs' AS service, bucket, outcome FROM storage_logs
  UNION ALL
  SELECT 'realtime_logs' AS service, bucket, outcome FROM realtime_logs
  UNION ALL
  SELECT 'postgrest_logs' AS service, bucket, outcome FROM postgrest_logs
  UNION ALL
  SELECT 'edge_logs' AS service, bucket, outcome FROM edge_logs
  UNION ALL
  SELECT 'supavisor_logs' AS service, bucket, outcome FROM supavisor_logs
  UNION ALL
  SELECT 'function_logs' AS service, bucket, outcome FROM function_logs
  UNION ALL
  SELECT 'etl_replication_logs' AS service, bucket, outcome FROM etl_replication_logs
) AS logs
GROUP BY timestamp
ORDER BY timestamp ASC
