-- Requests of two windows of @minutes: the one that ends now, and the one before.
WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL (2 * @minutes) MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
)
SELECT
  t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL @minutes MINUTE) AS recent,
  SAFE_CAST(request.method AS STRING) AS method,
  SAFE_CAST(request.path AS STRING) AS path,
  SAFE_CAST(response.origin_time AS FLOAT64) AS milliseconds
FROM edge_logs AS t
CROSS JOIN UNNEST(t.metadata) AS m
CROSS JOIN UNNEST(m.request) AS request
CROSS JOIN UNNEST(m.response) AS response
WHERE response.origin_time IS NOT NULL
