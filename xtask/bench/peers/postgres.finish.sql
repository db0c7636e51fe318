CREATE INDEX ON edge (project, timestamp);
CREATE INDEX ON edge (id);
CREATE INDEX ON function_output (project, timestamp);
VACUUM (FREEZE, ANALYZE) edge;
VACUUM (FREEZE, ANALYZE) function_output;
