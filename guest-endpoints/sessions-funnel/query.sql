WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL @hours HOUR)
    AND t.timestamp <= CURRENT_TIMESTAMP()
)
-- What signed-in users asked for, one user after the other: the code needs no memory of those that are through.
SELECT
  SAFE_CAST(sb.auth_user AS STRING) AS user,
  t.timestamp AS at,
  SAFE_CAST(request.path AS STRING) AS path
FROM edge_logs AS t
CROSS JOIN UNNEST(t.metadata) AS m
CROSS JOIN UNNEST(m.request) AS request
CROSS JOIN UNNEST(request.sb) AS sb
WHERE sb.auth_user IS NOT NULL
ORDER BY user, at, t.id
