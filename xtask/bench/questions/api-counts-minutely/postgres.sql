SELECT date_trunc('minute', timestamp) AS bucket,
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/rest%'),
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/storage%'),
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/auth%'),
  count(*) FILTER (WHERE metadata->'request'->>'path' LIKE '%/realtime%')
FROM edge
WHERE timestamp >= timestamptz @now - interval '60 MINUTE' AND timestamp <= timestamptz @now
  AND metadata->'request'->>'url' ~ @project
GROUP BY bucket ORDER BY bucket
