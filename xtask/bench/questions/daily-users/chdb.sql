SELECT toDateTime64(toStartOfDay(timestamp), 6, 'UTC') AS day, uniqExact(auth_user) AS users
FROM edge GROUP BY day ORDER BY day
