-- Requests through the API gateway, counted by product in time buckets. A request whose path
-- names several products counts in each; a bucket without requests is not there. Self-hosted
-- gateways log no URL, so that a request is also known by its project.
WITH
-- the requests of the window, each with the start of its bucket
requests AS (
  SELECT
    CASE
      WHEN @interval IN ('minutely', '15min', '30min', '1hr', '3hr') THEN TIMESTAMP_TRUNC(t.timestamp, MINUTE)
      WHEN @interval IN ('hourly', '1day', '3day') THEN TIMESTAMP_TRUNC(t.timestamp, HOUR)
      ELSE TIMESTAMP_TRUNC(t.timestamp, DAY)
    END AS bucket,
    request.path AS path,
  FROM `cloudflare.logs.prod` AS t
  CROSS JOIN UNNEST(t.metadata) AS m
  CROSS JOIN UNNEST(m.request) AS request
  WHERE
    t.timestamp >= TIMESTAMP_SUB(
      CURRENT_TIMESTAMP(),
      INTERVAL CASE @interval
        WHEN '15min' THEN 15
        WHEN '30min' THEN 30
        WHEN '1hr' THEN 60
        WHEN 'minutely' THEN 60
        WHEN 'hourly' THEN 60
        WHEN '3hr' THEN 180
        WHEN '1day' THEN 1440
        WHEN '3day' THEN 4320
        ELSE 10080
      END MINUTE
    )
    AND t.timestamp <= CURRENT_TIMESTAMP()
    AND (REGEXP_CONTAINS(request.url, @project) OR REGEXP_CONTAINS(t.project, @project))
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
