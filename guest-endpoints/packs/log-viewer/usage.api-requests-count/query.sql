-- How many requests of one project went through the API gateway in the last 24 hours.
WITH
requests AS (
  SELECT t.id, t.timestamp
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
    AND t.timestamp <= CURRENT_TIMESTAMP()
)
SELECT COUNT(*) AS count
FROM requests
