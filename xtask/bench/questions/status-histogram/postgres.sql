SELECT (metadata->'response'->>'status_code')::int AS status_code, count(*) AS records
FROM edge GROUP BY 1 ORDER BY 1
