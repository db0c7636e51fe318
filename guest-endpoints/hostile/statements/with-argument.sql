SELECT id, timestamp, event_message FROM edge_logs WHERE event_message = @extra
