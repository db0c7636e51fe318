-- what functions printed for requests that failed, by function and level: the largest project's edge records with those of its functions, by request id
-- endpoint: logs.all
-- parameter: project = @project
SELECT o.function_id AS function_id, o.level AS level, COUNT(*) AS records
FROM (
  SELECT m.request_id AS request_id
  FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.response) AS response
  WHERE response.status_code >= 400
) AS e
JOIN (
  SELECT m.request_id AS request_id, m.function_id AS function_id, m.level AS level
  FROM function_logs CROSS JOIN UNNEST(metadata) AS m
) AS o ON o.request_id = e.request_id
GROUP BY function_id, level ORDER BY function_id, level
