-- how many records of all projects have a text in their message
-- endpoint: bench.tables
SELECT COUNT(*) AS records FROM edge_logs WHERE event_message LIKE '%lighthouses?select=count%'
