-- the newest 100 records of the largest project with their whole metadata
-- endpoint: logs.all
-- parameter: project = @project
SELECT id, timestamp, event_message, metadata FROM edge_logs ORDER BY timestamp DESC LIMIT 100
