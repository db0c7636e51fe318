SELECT date_trunc('day', timestamp) AS day, count(DISTINCT auth_user) AS users FROM edge GROUP BY day ORDER BY day
