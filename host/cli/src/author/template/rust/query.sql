-- The tables of this endpoint are the CTEs below: the statements in statements/ can read nothing else. So the
-- filter that keeps projects apart belongs here, and the body reads them and not the sources.
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
