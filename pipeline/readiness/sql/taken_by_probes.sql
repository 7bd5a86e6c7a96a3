-- one row per policy and set of exclusions: those that take out some would-be denial of one binding
-- items: the numbers of the exclusions
WITH denied AS (
    SELECT DISTINCT policy, coalesce(binding, '') AS binding, cluster, audit_id, ts
    FROM (SELECT policy AS thing, * FROM verdicts)
    ANTI JOIN still_denied USING (thing, cluster, audit_id, ts)
    WHERE effect = 'deny'
),
found AS (
    -- what is unknown about an exclusion leaves the verdict unknown, so the request is not denied either
    SELECT policy AS probe, binding AS probe_binding, cluster, audit_id, ts, expression_index AS failed,
        bool_or(expression_index IS NOT NULL) OVER (PARTITION BY policy, binding, cluster, audit_id, ts) AS has_parts
    FROM read_parquet($probed)
    WHERE effect = 'deny' OR decision = 'unknown'
),
took AS (
    SELECT DISTINCT policy, binding, cluster, audit_id, ts, item
    FROM found JOIN probes USING (probe, probe_binding)
    WHERE expression_index IS NULL OR failed = expression_index OR NOT has_parts
)
SELECT DISTINCT policy, items
FROM (
    SELECT policy, list(item ORDER BY item) AS items
    FROM denied JOIN took USING (policy, binding, cluster, audit_id, ts)
    GROUP BY policy, binding, cluster, audit_id, ts
)
ORDER BY ALL
