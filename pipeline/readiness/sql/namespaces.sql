-- one row per (policy, binding, namespace) with a matched request; the namespace is empty for cluster-scoped objects
SELECT
    policy, binding, namespace,
    count(*) AS matched,
    count(*) FILTER (WHERE outcome = 'deny') AS denied,
    count(*) FILTER (WHERE outcome = 'unknown') AS unknown,
    count(DISTINCT (cluster, unit)) FILTER (WHERE outcome = 'deny') AS denied_units
FROM outcomes
GROUP BY ALL
ORDER BY policy, binding, denied DESC, matched DESC, namespace
