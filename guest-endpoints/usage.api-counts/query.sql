-- Requests through the API gateway, counted by product in time buckets. A request whose path
-- names several products counts in each; a bucket without requests is not there.
WITH
-- the requests of the window whose address matches, each with the start of its bucket
requests AS (
  SELECT
    CASE @interval
      WHEN 'minutely' THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN 'hourly' THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    request.path AS path,
  FROM `cloudflare.logs.prod` AS t
  CROSS JOIN UNNEST(t.metadata) AS m
  CROSS JOIN UNNEST(m.request) AS request
  WHERE
    t.timestamp >= CASE @interval
      WHEN 'minutely' THEN TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 60 MINUTE)
      WHEN 'hourly' THEN TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)
      ELSE TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 7 DAY)
    END
    AND t.timestamp <= CURRENT_TIMESTAMP()
    AND REGEXP_CONTAINS(request.url, @project)
)
SELECT
  DATETIME(bucket, 'UTC') AS timestamp,
  COUNTIF(REGEXP_CONTAINS(path, '/rest')) AS total_rest_requests,
  COUNTIF(REGEXP_CONTAINS(path, '/storage')) AS total_storage_requests,
  COUNTIF(REGEXP_CONTAINS(path, '/auth')) AS total_auth_requests,
  COUNTIF(REGEXP_CONTAINS(path, '/realtime')) AS total_realtime_requests,
FROM requests
GROUP BY timestamp
ORDER BY timestamp ASC
