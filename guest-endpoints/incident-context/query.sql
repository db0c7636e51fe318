WITH
edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL @hours HOUR)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
-- A minute more at both ends: an error may be in the minute beside that of the failure.
postgres_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `postgres.logs` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL (60 * @hours + 1) MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
)
-- The worst minute, the latest of several; no row where nothing failed.
SELECT TIMESTAMP_TRUNC(t.timestamp, MINUTE) AS minute
FROM edge_logs AS t
CROSS JOIN UNNEST(t.metadata) AS m
CROSS JOIN UNNEST(m.response) AS response
WHERE SAFE_CAST(response.status_code AS INT64) >= 500
GROUP BY minute
ORDER BY COUNT(*) DESC, minute DESC
LIMIT 1
