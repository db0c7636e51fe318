-- The tables of this endpoint are the CTEs below: a caller who sends SQL of their own can read nothing else. So the
-- filter that keeps projects apart belongs here, and the body reads them and not the sources.
WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
)
-- The answer. A record in metadata is an array of one: UNNEST opens it.
SELECT
  CAST(TIMESTAMP_TRUNC(timestamp, HOUR) AS DATETIME) AS hour,
  COUNT(*) AS requests,
  COUNTIF(response.status_code >= 500) AS failures
FROM edge_logs
CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.response) AS response
WHERE timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
GROUP BY hour
ORDER BY hour
