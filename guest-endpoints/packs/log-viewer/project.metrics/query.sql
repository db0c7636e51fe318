-- How the services of one project do in time buckets, in a window that ends now and in the one
-- before it. What a log tells of its level or its status decides whether it is an error, a warning
-- or neither; a bucket without logs is not there.
WITH
db AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS time_window,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].parsed[SAFE_OFFSET(0)].error_severity AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].parsed[SAFE_OFFSET(0)].error_severity AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `postgres.logs` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
functions AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS time_window,
    CASE
      WHEN SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) >= 500 THEN 'error'
      WHEN SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) >= 400 THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `deno-relay-logs` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project_ref = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
auth AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS time_window,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') OR SAFE_CAST(t.metadata[SAFE_OFFSET(0)].status AS INT64) >= 500 THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') OR SAFE_CAST(t.metadata[SAFE_OFFSET(0)].status AS INT64) >= 400 THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `gotrue.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
storage AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS time_window,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `storage.logs.prod.2` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
realtime AS (
  SELECT
    CASE
      WHEN @interval IN ('15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS time_window,
    CASE
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('error', 'fatal', 'panic', 'critical', '50', '60') THEN 'error'
      WHEN LOWER(SAFE_CAST(t.metadata[SAFE_OFFSET(0)].level AS STRING)) IN ('warning', 'warn', '40') THEN 'warning'
      ELSE 'ok'
    END AS outcome
  FROM `realtime.logs.prod` AS t
  WHERE t.metadata[SAFE_OFFSET(0)].project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
)
SELECT
  bucket AS timestamp,
  service,
  time_window,
  COUNTIF(outcome = 'ok') AS ok_count,
  COUNTIF(outcome = 'warning') AS warning_count,
  COUNTIF(outcome = 'error') AS error_count
FROM (
  SELECT 'db' AS service, bucket, time_window, outcome FROM db
  UNION ALL
  SELECT 'functions' AS service, bucket, time_window, outcome FROM functions
  UNION ALL
  SELECT 'auth' AS service, bucket, time_window, outcome FROM auth
  UNION ALL
  SELECT 'storage' AS service, bucket, time_window, outcome FROM storage
  UNION ALL
  SELECT 'realtime' AS service, bucket, time_window, outcome FROM realtime
) AS logs
GROUP BY timestamp, service, time_window
ORDER BY timestamp ASC, service ASC, time_window ASC
