-- `judged`: one row per (policy, binding, request) of things with new denials, from the table `verdicts` of a run of any stage
-- outcome: deny if anything would deny the request; else unknown if anything could not be judged; else admit
CREATE OR REPLACE TEMP TABLE judged AS
SELECT
    policy, binding, cluster, audit_id, ts,
    CASE
        WHEN bool_or(effect = 'deny') THEN 'deny'
        WHEN bool_or(decision = 'unknown') THEN 'unknown'
        ELSE 'admit'
    END AS outcome,
    coalesce(bool_or(effect = 'deny' AND why IN ('configuration', 'namespaceObject', 'namespaceSelector')), false) AS is_configuration,
    true AS is_behind
FROM verdicts
WHERE decision <> 'nomatch' AND policy IN (SELECT policy FROM verdicts WHERE effect = 'deny')
GROUP BY ALL
