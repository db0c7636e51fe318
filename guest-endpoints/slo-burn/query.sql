WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 3 DAY)
    AND t.timestamp <= CURRENT_TIMESTAMP()
)
-- A row for each minute with requests, counted back from now: 0 is the last.
SELECT
  DIV(TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), t.timestamp, MICROSECOND), 60000000) AS minutes_ago,
  COUNT(*) AS requests,
  COUNTIF(SAFE_CAST(response.status_code AS INT64) >= 500) AS errors
FROM edge_logs AS t
CROSS JOIN UNNEST(t.metadata) AS m
CROSS JOIN UNNEST(m.response) AS response
GROUP BY minutes_ago
