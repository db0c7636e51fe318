SELECT metadata->'request'->'headers'->>'user_agent' AS user_agent, count(*) AS records
FROM edge GROUP BY 1 ORDER BY records DESC, user_agent LIMIT 10
