-- one row per thing of the table `tried`: the requests that a run would newly deny, and those that could not be judged
-- thing: the policy, or with per_binding the policy and its binding
WITH outcomes AS (
    SELECT
        CASE WHEN $per_binding AND binding <> '' THEN policy || '/' || binding ELSE policy END AS thing,
        cluster, audit_id, ts,
        coalesce(bool_or(effect = 'deny' AND flip IS DISTINCT FROM 'still-denied'), false) AS is_denied,
        bool_or(decision = 'unknown') AS is_unknown
    FROM tried
    WHERE decision <> 'nomatch'
    GROUP BY ALL
)
SELECT thing, count(*) FILTER (is_denied) AS denied, count(*) FILTER (is_unknown AND NOT is_denied) AS unknown
FROM outcomes
GROUP BY ALL
ORDER BY ALL
