-- one row per (policy, binding, cluster, audit_id, ts) that the policy matched or may have matched
-- outcome: deny if anything would deny the request; else unknown if anything could not be judged; else admit
-- is_error: whether evaluation failed anywhere; failurePolicy made a denial of it, or let it pass
-- is_failed: whether errors alone deny: an expression failed, and none was false; who sent the request cannot mend that
-- is_enforced: whether the denial would reach the client: the actions hold Deny, or an error of the configuration denies regardless;
--   a policy without a binding is taken to deny
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
    -- Of several expressions the first one speaks; the row of the whole policy has no index, and repeats nothing.
    coalesce(
        arg_min(message, (expression_index, message)) FILTER (WHERE effect = 'deny' AND expression_index IS NOT NULL),
        min(message) FILTER (WHERE effect = 'deny')
    ) AS message,
    coalesce(bool_or(decision = 'error'), false) AS is_error,
    coalesce(bool_or(effect = 'deny' AND decision = 'error') AND NOT bool_or(effect = 'deny' AND decision = 'deny'), false) AS is_failed,
    -- Of a denial: why its messageExpression has no result to use.
    coalesce(
        min(why) FILTER (WHERE decision = 'unknown'),
        min(why) FILTER (WHERE effect = 'deny' AND starts_with(why, 'messageExpression: '))
    ) AS why,
    min(expression_index) FILTER (WHERE effect = 'deny') AS expression_index,
    coalesce(bool_or(effect = 'deny' AND (binding IS NULL OR bypasses_actions OR list_contains(actions, 'Deny'))), false) AS is_enforced,
    max(actions) AS actions
FROM verdicts
WHERE decision <> 'nomatch'
GROUP BY policy, binding, cluster, audit_id, ts
