-- The tables of this endpoint are the CTEs below, and nothing else can be read: not by its code either. So the
-- filter that keeps projects apart belongs here.
WITH edge_logs AS (
  SELECT t.id, t.timestamp, t.event_message, t.metadata
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
)
-- The statement "default", which src/lib.rs runs. Others go into statements/NAME.sql.
SELECT request.path AS path
FROM edge_logs
CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request
