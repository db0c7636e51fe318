-- the 95th percentile of the origin's time by route, all projects
-- endpoint: bench.tables
SELECT REGEXP_EXTRACT(request.path, '^/[a-z]+/v1') AS route, COUNT(*) AS records,
  APPROX_QUANTILES(response.origin_time, 100)[OFFSET(95)] AS p95
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request CROSS JOIN UNNEST(m.response) AS response
GROUP BY route ORDER BY route
