-- records by status, all projects
-- endpoint: bench.tables
SELECT response.status_code AS status_code, COUNT(*) AS records
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.response) AS response
GROUP BY status_code ORDER BY status_code
