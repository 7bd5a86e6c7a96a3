-- one row per (policy, binding, kind of critical subject, subject) with a matched request
SELECT
    policy, binding, critical AS kind, critical_subject AS subject,
    count(*) AS requests,
    count(*) FILTER (WHERE outcome = 'deny') AS denied,
    count(*) FILTER (WHERE outcome = 'unknown') AS unknown,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    coalesce(arg_max(message, (ts, audit_id)) FILTER (WHERE outcome = 'deny'), '') AS message,
    coalesce(arg_max(audit_id, (ts, audit_id)) FILTER (WHERE outcome = 'deny'), '') AS audit_id
FROM outcomes
WHERE critical IS NOT NULL
GROUP BY ALL
ORDER BY policy, binding, denied DESC, unknown DESC, requests DESC, kind, subject
