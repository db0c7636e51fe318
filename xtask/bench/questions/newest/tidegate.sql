-- the newest 100 records of the largest project
-- endpoint: logs.all
-- parameter: project = @project
SELECT id, timestamp, event_message FROM edge_logs ORDER BY timestamp DESC LIMIT 100
