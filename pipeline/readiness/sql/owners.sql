-- one row per (policy, binding, namespace, resource, unit, user) with at least one would-be denial
SELECT
    policy,
    binding,
    namespace,
    resource,
    unit,
    user_name,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_max(message, (ts, audit_id)) AS message,
    arg_max(audit_id, (ts, audit_id)) AS audit_id
FROM outcomes
WHERE outcome = 'deny'
GROUP BY ALL
ORDER BY policy, binding, requests DESC, namespace, resource, unit, user_name
