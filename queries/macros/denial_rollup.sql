-- one row per (cluster, policy, binding): requests that it denied, as reported to the clients
-- since: earliest time of a request, or null
-- until: time before which requests count, or null
-- within: a namespace, or null for all
-- of_cluster: a cluster, or null for all
--
-- Only the first denial of a request is reported to its client; the other denials of that request are not counted.
CREATE MACRO denial_rollup(since, until, within, of_cluster := NULL) AS TABLE
SELECT
    cluster,
    policy,
    binding,
    count(*) AS requests,
    count(DISTINCT user_name) AS users,
    count(DISTINCT namespace) AS namespaces,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM policy_denials
WHERE (since IS NULL OR ts >= since) AND (until IS NULL OR ts < until) AND (within IS NULL OR namespace = within)
    AND (of_cluster IS NULL OR cluster = of_cluster)
GROUP BY ALL
ORDER BY requests DESC, cluster, policy, binding
