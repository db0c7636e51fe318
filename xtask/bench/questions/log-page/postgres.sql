SELECT id, timestamp, event_message, metadata->'request'->>'method', metadata->'request'->>'path',
  (metadata->'response'->>'status_code')::int
FROM edge
WHERE project = @project AND timestamp >= timestamptz @day AND (metadata->'response'->>'status_code')::int >= 400
ORDER BY timestamp DESC LIMIT 100;
SELECT date_trunc('hour', timestamp) AS bucket,
  count(*) FILTER (WHERE (metadata->'response'->>'status_code')::int < 500),
  count(*) FILTER (WHERE (metadata->'response'->>'status_code')::int >= 500)
FROM edge
WHERE project = @project AND timestamp >= timestamptz @day AND (metadata->'response'->>'status_code')::int >= 400
GROUP BY bucket ORDER BY bucket;
SELECT count(*) FROM edge
WHERE project = @project AND timestamp >= timestamptz @day AND (metadata->'response'->>'status_code')::int >= 400
