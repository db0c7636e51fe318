-- Calls of an edge function in time buckets: how they ended and how long they took, in milliseconds.
-- A bucket without calls is not there.
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
)
SELECT
  bucket AS timestamp,
  COUNT(*) AS requests_count,
  COUNTIF(status < 300) AS success_count,
  COUNTIF(status BETWEEN 300 AND 399) AS redirect_count,
  COUNTIF(status BETWEEN 400 AND 499) AS client_err_count,
  COUNTIF(status >= 500) AS server_err_count,
  AVG(execution_time) AS avg_execution_time,
  MAX(execution_time) AS max_execution_time
FROM calls
GROUP BY timestamp
ORDER BY timestamp ASC
