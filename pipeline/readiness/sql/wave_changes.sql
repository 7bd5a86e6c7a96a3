-- one row per (policy, binding, namespace, unit) that would be denied: how often, the last user who is no controller (or the last
-- one), and the latest such request
SELECT
    policy, binding, namespace, unit, count(*) AS requests,
    coalesce(
        arg_max(user_name, ts) FILTER (WHERE NOT starts_with(user_name, 'system:serviceaccount:kube-system:')), arg_max(user_name, ts)
    ) AS user_name,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM outcomes
WHERE outcome = 'deny'
GROUP BY ALL
ORDER BY policy, binding NULLS FIRST, namespace, requests DESC, unit
