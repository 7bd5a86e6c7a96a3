-- one row per (policy, binding, cluster, audit_id, ts) that the policy matched or may have matched
-- outcome: deny if anything would deny the request; else unknown if anything could not be judged; else admit
CREATE OR REPLACE TEMP TABLE judged AS
SELECT
    policy,
    binding,
    cluster,
    audit_id,
    ts,
    CASE
        WHEN bool_or(effect = 'deny') THEN 'deny'
        WHEN bool_or(decision = 'unknown') THEN 'unknown'
        ELSE 'admit'
    END AS outcome,
    -- The row of the whole policy repeats nothing, so a message of one of its expressions is the telling one.
    min(message) FILTER (WHERE effect = 'deny') AS message,
    min(why) FILTER (WHERE decision = 'unknown') AS why,
    min(expression_index) FILTER (WHERE effect = 'deny') AS expression_index,
    max(actions) AS actions
FROM verdicts
WHERE decision <> 'nomatch'
GROUP BY policy, binding, cluster, audit_id, ts
