SELECT id, timestamp, project, event_message FROM edge WHERE id = @id
