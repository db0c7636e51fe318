SELECT path, count(*) AS errors, avg(origin_time) AS average
FROM edge WHERE project = @project AND status_code >= 500
GROUP BY path ORDER BY errors DESC, path LIMIT 20
