SELECT count(*) FROM edge WHERE event_message LIKE '%lighthouses?select=count%'
