SELECT id, timestamp, event_message FROM edge
WHERE project = @project AND event_message LIKE '%lighthouses?select=count%'
ORDER BY timestamp DESC LIMIT 100
