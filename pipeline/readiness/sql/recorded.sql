-- one row per (cluster, policy, binding) with a failure or a denial that the cluster recorded
WITH failed AS (
    SELECT cluster, policy, binding, count(*) AS failures, min(ts) AS first_ts, max(ts) AS last_ts,
        list(DISTINCT namespace) AS namespaces, list(DISTINCT user_name) AS users
    FROM violations
    GROUP BY ALL
),
denied AS (
    SELECT cluster, policy, coalesce(binding, '') AS binding, count(*) AS denied_requests, min(ts) AS first_ts, max(ts) AS last_ts,
        list(DISTINCT namespace) AS namespaces, list(DISTINCT user_name) AS users
    FROM policy_denials
    GROUP BY ALL
)
SELECT
    cluster,
    policy,
    binding,
    coalesce(failed.failures, 0) AS failures,
    coalesce(denied.denied_requests, 0) AS denied_requests,
    len(list_distinct(list_concat(failed.namespaces, denied.namespaces))) AS namespaces,
    len(list_distinct(list_concat(failed.users, denied.users))) AS users,
    least(failed.first_ts, denied.first_ts) AS first_ts,
    greatest(failed.last_ts, denied.last_ts) AS last_ts
FROM failed FULL JOIN denied USING (cluster, policy, binding)
ORDER BY coalesce(failed.failures, 0) + coalesce(denied.denied_requests, 0) DESC, cluster, policy, binding
