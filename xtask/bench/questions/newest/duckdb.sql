SELECT id, timestamp, event_message FROM edge WHERE project = @project ORDER BY timestamp DESC LIMIT 100
