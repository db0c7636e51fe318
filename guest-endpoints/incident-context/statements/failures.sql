-- The requests that failed from @from until before @to.
SELECT
  t.timestamp AS at,
  SAFE_CAST(request.method AS STRING) AS method,
  SAFE_CAST(request.path AS STRING) AS path,
  SAFE_CAST(response.status_code AS INT64) AS status
FROM edge_logs AS t
CROSS JOIN UNNEST(t.metadata) AS m
CROSS JOIN UNNEST(m.request) AS request
CROSS JOIN UNNEST(m.response) AS response
WHERE t.timestamp >= @from AND t.timestamp < @to AND SAFE_CAST(response.status_code AS INT64) >= 500
ORDER BY at, t.id
