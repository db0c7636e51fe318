-- the newest 100 records of the largest project that a rare regular expression matches
-- endpoint: logs.all
-- parameter: project = @project
SELECT id, timestamp, event_message FROM edge_logs
WHERE REGEXP_CONTAINS(event_message, 'trace=zq-[0-9]{4}-(ab|ef)')
ORDER BY timestamp DESC LIMIT 100
