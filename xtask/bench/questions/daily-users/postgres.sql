SELECT date_trunc('day', timestamp) AS day, count(DISTINCT metadata->'request'->'sb'->>'auth_user') AS users
FROM edge GROUP BY day ORDER BY day
