-- one row per (policy, binding, denier, name): requests that the policy would have denied and that somebody else really denied
SELECT
    o.policy, o.binding, d.denier,
    coalesce(d.policy, d.webhook, '') AS name,
    count(*) AS requests,
    count(DISTINCT (o.cluster, o.namespace, o.unit)) AS units,
    min(o.ts) AS first_ts,
    max(o.ts) AS last_ts,
    arg_max(d.message, (o.ts, o.audit_id)) AS message,
    arg_max(o.audit_id, (o.ts, o.audit_id)) AS audit_id
FROM outcomes AS o
JOIN denials AS d ON d.cluster = o.cluster AND d.audit_id = o.audit_id AND d.ts = o.ts
WHERE o.outcome = 'deny' AND NOT coalesce(d.denier = 'vap' AND d.policy = o.policy, false)
GROUP BY ALL
ORDER BY o.policy, o.binding, requests DESC, d.denier, name
