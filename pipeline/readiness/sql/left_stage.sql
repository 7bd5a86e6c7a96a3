-- one row per (policy, binding) of the table `tried`: the requests that a run of any stage would newly deny, and the unknown ones
WITH outcomes AS (
    SELECT
        policy, binding, cluster, audit_id, ts,
        coalesce(bool_or(effect = 'deny' AND flip IS DISTINCT FROM 'still-denied'), false) AS is_denied,
        bool_or(decision = 'unknown') AS is_unknown
    FROM tried
    WHERE decision <> 'nomatch'
    GROUP BY ALL
)
SELECT policy, binding, count(*) FILTER (is_denied) AS denied, count(*) FILTER (is_unknown AND NOT is_denied) AS unknown
FROM outcomes
GROUP BY ALL
ORDER BY ALL
