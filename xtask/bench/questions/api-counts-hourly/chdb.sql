SELECT toDateTime64(date_trunc('hour', timestamp), 6, 'UTC') AS bucket,
  countIf(position(path, '/rest') > 0), countIf(position(path, '/storage') > 0),
  countIf(position(path, '/auth') > 0), countIf(position(path, '/realtime') > 0)
FROM edge
WHERE timestamp >= toDateTime64(@now, 6, 'UTC') - INTERVAL 1 HOUR AND timestamp <= toDateTime64(@now, 6, 'UTC')
  AND match(url, @project)
GROUP BY bucket ORDER BY bucket
