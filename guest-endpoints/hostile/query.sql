WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE @project IS NULL OR t.project = @project
)
SELECT id, timestamp, event_message FROM edge_logs
