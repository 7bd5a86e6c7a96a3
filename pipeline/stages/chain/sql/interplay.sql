-- one row per (policy, binding) of a run, what mutating policies given with it make of its verdicts, and the names of these:
-- on how many requests, and the latest of them
-- kind: needs (it admits them only because of these), breaks (it refuses them only because of these)
WITH told AS (
    SELECT
        policy, binding, cluster, audit_id, ts, max(detail ->> '$.first.by') AS changers,
        bool_or(coalesce(detail ->> '$.first.effect', effect) = 'deny') AS alone, bool_or(effect = 'deny') AS behind,
        bool_or(decision = 'unknown') AS is_open
    FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    GROUP BY ALL
    HAVING changers IS NOT NULL
)
SELECT
    policy, binding, CASE WHEN alone THEN 'needs' ELSE 'breaks' END AS kind, changers, count(*) AS requests,
    arg_max(audit_id, (ts, audit_id)) AS example
FROM told
WHERE alone <> behind AND NOT is_open
GROUP BY ALL
ORDER BY policy, binding NULLS FIRST, kind, requests DESC, changers
