SELECT o.function_id, o.level, count(*) AS records
FROM edge AS e JOIN function_output AS o ON o.request_id = e.request_id
WHERE e.project = @project AND o.project = @project AND e.status_code >= 400
GROUP BY o.function_id, o.level ORDER BY o.function_id, o.level
