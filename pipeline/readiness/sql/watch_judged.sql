-- one row per (policy, binding, stretch of time, cluster, namespace, unit, user, critical subject, outcome), and its earliest request
SELECT
    policy, binding,
    time_bucket(to_microseconds($stretch_us), ts) AS stretch,
    cluster, namespace, unit, user_name, critical, critical_subject, outcome,
    count(*) AS requests,
    count(*) FILTER (WHERE outcome = 'admit' AND is_error) AS excused,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_min(audit_id, (ts, audit_id)) AS audit_id,
    arg_min(coalesce(message, ''), (ts, audit_id)) AS message
FROM outcomes
GROUP BY ALL
ORDER BY policy, binding, first_ts, audit_id, outcome
