-- An edge function in time buckets: its calls, the lines that it logged, and what its instances had
-- used when they ended. Times are milliseconds, memory is bytes; where nothing was measured, NULL. A
-- bucket without any of these is not there.
WITH
-- calls of the window, each with the start of its bucket; lines without a status are no calls
calls AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    t.metadata[SAFE_OFFSET(0)].function_id AS function_id,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) AS status,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].execution_time_ms AS FLOAT64) AS execution_time
  FROM `deno-relay-logs` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@function_id, '') = '' THEN TRUE ELSE t.metadata[SAFE_OFFSET(0)].function_id = @function_id END
    AND t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code IS NOT NULL
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
-- what the function logged and how its instances ended
events AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    t.metadata[SAFE_OFFSET(0)].function_id AS function_id,
    COALESCE(t.metadata[SAFE_OFFSET(0)].event_type, 'Log') NOT IN ('Boot', 'Shutdown') AS is_line,
    LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) AS level,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].cpu_time_used AS FLOAT64) AS cpu_time,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].memory_used[SAFE_OFFSET(0)].total AS FLOAT64) AS memory,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].memory_used[SAFE_OFFSET(0)].heap AS FLOAT64) AS heap_memory,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].memory_used[SAFE_OFFSET(0)].external AS FLOAT64) AS external_memory
  FROM `deno-subhosting-events` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND CASE WHEN COALESCE(@function_id, '') = '' THEN TRUE ELSE t.metadata[SAFE_OFFSET(0)].function_id = @function_id END
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
of_calls AS (
  SELECT
    bucket,
    COUNT(*) AS requests_count,
    COUNTIF(status < 300) AS success_count,
    COUNTIF(status BETWEEN 300 AND 399) AS redirect_count,
    COUNTIF(status BETWEEN 400 AND 499) AS client_err_count,
    COUNTIF(status >= 500) AS server_err_count,
    AVG(execution_time) AS avg_execution_time,
    MAX(execution_time) AS max_execution_time
  FROM calls
  GROUP BY bucket
),
of_events AS (
  SELECT
    bucket,
    COUNTIF(is_line) AS log_count,
    COUNTIF(is_line AND level IN ('info', 'log')) AS log_info_count,
    COUNTIF(is_line AND level IN ('warning', 'warn')) AS log_warn_count,
    COUNTIF(is_line AND level IN ('error', 'fatal')) AS log_error_count,
    AVG(cpu_time) AS avg_cpu_time_used,
    MAX(cpu_time) AS max_cpu_time_used,
    AVG(memory) AS avg_memory_used,
    AVG(heap_memory) AS avg_heap_memory_used,
    AVG(external_memory) AS avg_external_memory_used
  FROM events
  GROUP BY bucket
)
SELECT
  COALESCE(c.bucket, e.bucket) AS timestamp,
  COALESCE(c.requests_count, 0) AS requests_count,
  COALESCE(c.success_count, 0) AS success_count,
  COALESCE(c.redirect_count, 0) AS redirect_count,
  COALESCE(c.client_err_count, 0) AS client_err_count,
  COALESCE(c.server_err_count, 0) AS server_err_count,
  COALESCE(e.log_count, 0) AS log_count,
  COALESCE(e.log_info_count, 0) AS log_info_count,
  COALESCE(e.log_warn_count, 0) AS log_warn_count,
  COALESCE(e.log_error_count, 0) AS log_error_count,
  e.avg_cpu_time_used,
  e.max_cpu_time_used,
  e.avg_memory_used,
  e.avg_heap_memory_used,
  e.avg_external_memory_used,
  c.avg_execution_time,
  c.max_execution_time
FROM of_calls AS c
FULL JOIN of_events AS e ON c.bucket = e.bucket
ORDER BY timestamp ASC
