-- one record by its id, without its project
-- endpoint: bench.tables
SELECT id, timestamp, project, event_message FROM edge_logs WHERE id = @id
