-- the newest 100 records of the largest project with a text in their message
-- endpoint: logs.all
-- parameter: project = @project
SELECT id, timestamp, event_message FROM edge_logs
WHERE event_message LIKE '%lighthouses?select=count%'
ORDER BY timestamp DESC LIMIT 100
