SELECT metadata->'request'->>'path' AS path, count(*) AS errors,
  avg((metadata->'response'->>'origin_time')::float8) AS average
FROM edge WHERE project = @project AND (metadata->'response'->>'status_code')::int >= 500
GROUP BY 1 ORDER BY errors DESC, path LIMIT 20
