WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
  ORDER BY t.timestamp DESC
)
SELECT SAFE_CAST(request.method AS STRING) AS method, SAFE_CAST(response.status_code AS INT64) AS status
FROM edge_logs
CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request
CROSS JOIN UNNEST(m.response) AS response
