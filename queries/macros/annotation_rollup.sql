-- one row per (cluster, policy, key, declared_by): audit annotations that policies declared, certain ones first
-- since: earliest time of a request, or null
-- until: time before which requests count, or null
-- within: a namespace, or null for all
-- of_cluster: a cluster, or null for all
CREATE MACRO annotation_rollup(since, until, within, of_cluster := NULL) AS TABLE
SELECT
    cluster,
    policy,
    key,
    declared_by,
    count(*) AS requests,
    -- null where redaction replaced one of the values
    CASE WHEN count(*) FILTER (value = 'REDACTED') = 0 THEN count(DISTINCT value) END AS distinct_values,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM audit_annotations
WHERE (since IS NULL OR ts >= since) AND (until IS NULL OR ts < until) AND (within IS NULL OR namespace = within)
    AND (of_cluster IS NULL OR cluster = of_cluster)
GROUP BY ALL
ORDER BY declared_by, requests DESC, cluster, policy, key
