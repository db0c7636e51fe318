SELECT substring(metadata->'request'->>'path' from '^/[a-z]+/v1') AS route, count(*),
  percentile_disc(0.95) WITHIN GROUP (ORDER BY (metadata->'response'->>'origin_time')::int)
FROM edge GROUP BY route ORDER BY route
