SELECT o.metadata->>'function_id' AS function_id, o.metadata->>'level' AS level, count(*) AS records
FROM edge AS e JOIN function_output AS o ON o.metadata->>'request_id' = e.metadata->>'request_id'
WHERE e.project = @project AND o.project = @project AND (e.metadata->'response'->>'status_code')::int >= 400
GROUP BY 1, 2 ORDER BY 1, 2
