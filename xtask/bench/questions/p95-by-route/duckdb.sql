SELECT regexp_extract(path, '^/[a-z]+/v1') AS route, count(*), quantile_disc(origin_time, 0.95)
FROM edge GROUP BY route ORDER BY route
