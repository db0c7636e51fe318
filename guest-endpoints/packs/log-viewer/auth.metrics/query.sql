-- The authentication service in a window that ends now and in the one before it: two rows, also
-- where there are no logs. An error is a status of 400 or more. api_ counts what the gateway sent to
-- the service, auth_ what the service answered.
WITH
-- the lines of the service, in both windows
lines AS (
  SELECT
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS period,
    COALESCE(
      t.metadata[SAFE_OFFSET(0)].auth_event[SAFE_OFFSET(0)].action,
      JSON_VALUE(t.event_message, '$.auth_event.action'),
      JSON_VALUE(t.event_message, '$.action')
    ) AS action,
    COALESCE(
      t.metadata[SAFE_OFFSET(0)].auth_event[SAFE_OFFSET(0)].actor_id,
      JSON_VALUE(t.event_message, '$.auth_event.actor_id'),
      JSON_VALUE(t.event_message, '$.user_id')
    ) AS actor,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].status AS INT64) AS status
  FROM `gotrue.logs.prod` AS t
  WHERE t.project = @project
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
-- the requests to the service that came through the gateway, in both windows
requests AS (
  SELECT
    CASE WHEN t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE) THEN 'current' ELSE 'previous' END AS period,
    SAFE_CAST(t.metadata[SAFE_OFFSET(0)].response[SAFE_OFFSET(0)].status_code AS INT64) AS status
  FROM `cloudflare.logs.prod` AS t
  WHERE t.project = @project
    AND STARTS_WITH(t.metadata[SAFE_OFFSET(0)].request[SAFE_OFFSET(0)].path, '/auth/v1')
    AND t.timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 2 * CASE @interval WHEN '15min' THEN 15 WHEN '30min' THEN 30 WHEN '1hr' THEN 60 WHEN '3hr' THEN 180 WHEN '1day' THEN 1440 WHEN '3day' THEN 4320 ELSE 10080 END MINUTE)
    AND t.timestamp <= CURRENT_TIMESTAMP()
),
of_lines AS (
  SELECT
    period,
    COUNT(DISTINCT CASE WHEN action IN ('login', 'user_signedup', 'token_refreshed', 'user_modified', 'user_updated_password', 'user_recovery_requested', 'user_reauthenticate_requested') THEN actor END) AS active_users,
    COUNTIF(action = 'user_signedup') AS sign_up_count,
    COUNTIF(action = 'user_recovery_requested') AS password_reset_requests,
    COUNTIF(status IS NOT NULL) AS auth_total_requests,
    COUNTIF(status >= 400) AS auth_total_errors
  FROM lines
  GROUP BY period
),
of_requests AS (
  SELECT period, COUNT(*) AS api_total_requests, COUNTIF(status >= 400) AS api_error_requests
  FROM requests
  GROUP BY period
)
SELECT
  period,
  COALESCE(l.active_users, 0) AS active_users,
  COALESCE(l.sign_up_count, 0) AS sign_up_count,
  COALESCE(l.password_reset_requests, 0) AS password_reset_requests,
  COALESCE(r.api_total_requests, 0) AS api_total_requests,
  COALESCE(r.api_error_requests, 0) AS api_error_requests,
  COALESCE(l.auth_total_requests, 0) AS auth_total_requests,
  COALESCE(l.auth_total_errors, 0) AS auth_total_errors
FROM UNNEST(['current', 'previous']) AS period
LEFT JOIN of_lines AS l ON l.period = period
LEFT JOIN of_requests AS r ON r.period = period
ORDER BY period ASC
