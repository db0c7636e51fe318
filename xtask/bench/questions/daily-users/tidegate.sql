-- distinct users a day, all projects
-- endpoint: bench.tables
SELECT TIMESTAMP_TRUNC(timestamp, DAY) AS day, COUNT(DISTINCT sb.auth_user) AS users
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request CROSS JOIN UNNEST(request.sb) AS sb
GROUP BY day ORDER BY day
