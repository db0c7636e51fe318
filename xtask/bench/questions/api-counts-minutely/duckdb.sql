SELECT date_trunc('minute', timestamp) AS bucket,
  count(*) FILTER (contains(path, '/rest')), count(*) FILTER (contains(path, '/storage')),
  count(*) FILTER (contains(path, '/auth')), count(*) FILTER (contains(path, '/realtime'))
FROM edge
WHERE timestamp >= TIMESTAMP @now - INTERVAL 60 MINUTE AND timestamp <= TIMESTAMP @now
  AND regexp_matches(url, @project)
GROUP BY bucket ORDER BY bucket
