SELECT id, timestamp, event_message FROM edge
WHERE project = @project AND match(event_message, 'trace=zq-[0-9]{4}-(ab|ef)')
ORDER BY timestamp DESC LIMIT 100
