SELECT status_code, count(*) AS records FROM edge GROUP BY status_code ORDER BY status_code
