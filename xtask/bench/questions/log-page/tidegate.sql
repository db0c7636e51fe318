-- a page of a log viewer: list, histogram of a day and count, errors of the largest project; the sum of three requests
-- endpoint: logs.all
-- parameter: project = @project
SELECT id, timestamp, event_message, request.method AS method, request.path AS path, response.status_code AS status_code
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
CROSS JOIN UNNEST(m.request) AS request CROSS JOIN UNNEST(m.response) AS response
WHERE timestamp >= TIMESTAMP(@day) AND response.status_code >= 400
ORDER BY timestamp DESC LIMIT 100;
SELECT TIMESTAMP_TRUNC(timestamp, HOUR) AS bucket, COUNTIF(response.status_code < 500) AS warnings, COUNTIF(response.status_code >= 500) AS errors
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.response) AS response
WHERE timestamp >= TIMESTAMP(@day) AND response.status_code >= 400
GROUP BY bucket ORDER BY bucket;
SELECT COUNT(*) AS records
FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.response) AS response
WHERE timestamp >= TIMESTAMP(@day) AND response.status_code >= 400
