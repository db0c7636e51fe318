SELECT id, timestamp, event_message, method, path, status_code FROM edge
WHERE project = @project AND timestamp >= TIMESTAMP @day AND status_code >= 400
ORDER BY timestamp DESC LIMIT 100;
SELECT date_trunc('hour', timestamp) AS bucket, count(*) FILTER (status_code < 500), count(*) FILTER (status_code >= 500)
FROM edge WHERE project = @project AND timestamp >= TIMESTAMP @day AND status_code >= 400
GROUP BY bucket ORDER BY bucket;
SELECT count(*) FROM edge WHERE project = @project AND timestamp >= TIMESTAMP @day AND status_code >= 400
