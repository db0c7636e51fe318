SELECT id, timestamp, event_message, method, path, status_code FROM edge
WHERE project = @project AND timestamp >= toDateTime64(@day, 6, 'UTC') AND status_code >= 400
ORDER BY timestamp DESC LIMIT 100;
SELECT toStartOfHour(timestamp) AS bucket, countIf(status_code < 500), countIf(status_code >= 500)
FROM edge WHERE project = @project AND timestamp >= toDateTime64(@day, 6, 'UTC') AND status_code >= 400
GROUP BY bucket ORDER BY bucket;
SELECT count() FROM edge WHERE project = @project AND timestamp >= toDateTime64(@day, 6, 'UTC') AND status_code >= 400
