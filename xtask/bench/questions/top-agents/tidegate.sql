-- the ten most frequent user agents, all projects
-- endpoint: bench.tables
SELECT headers.user_agent AS user_agent, COUNT(*) AS records
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request CROSS JOIN UNNEST(request.headers) AS headers
GROUP BY user_agent ORDER BY records DESC, user_agent LIMIT 10
