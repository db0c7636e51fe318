SELECT date_trunc('hour', timestamp) AS bucket,
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/rest%'),
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/storage%'),
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/auth%'),
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/realtime%')
FROM edge
WHERE timestamp >= timestamptz @now - interval '1 HOUR' AND timestamp <= timestamptz @now
  AND metadata->'request'->>'url' ~ @project
GROUP BY bucket ORDER BY bucket
