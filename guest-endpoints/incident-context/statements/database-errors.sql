-- What the database complained about from @from until before @to.
SELECT
  t.timestamp AS at,
  SAFE_CAST(parsed.error_severity AS STRING) AS severity,
  SAFE_CAST(parsed.sql_state_code AS STRING) AS sql_state,
  t.event_message AS message
FROM postgres_logs AS t
CROSS JOIN UNNEST(t.metadata) AS m
CROSS JOIN UNNEST(m.parsed) AS parsed
WHERE t.timestamp >= @from AND t.timestamp < @to AND parsed.error_severity IN ('ERROR', 'FATAL', 'PANIC')
ORDER BY at, t.id
