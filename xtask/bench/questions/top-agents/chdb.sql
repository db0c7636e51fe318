SELECT user_agent, count(*) AS records FROM edge GROUP BY user_agent ORDER BY records DESC, user_agent LIMIT 10
