-- server errors of the largest project by path, with the average time
-- endpoint: logs.all
-- parameter: project = @project
SELECT request.path AS path, COUNT(*) AS errors, AVG(response.origin_time) AS average
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request CROSS JOIN UNNEST(m.response) AS response
WHERE response.status_code >= 500
GROUP BY path ORDER BY errors DESC, path LIMIT 20
