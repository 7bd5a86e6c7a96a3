-- `judged_requests`: one row per (variant of a policy, binding, request) that the variant matched, from a run of both
-- is_behind: whether the policy itself did not match it, so that what the variant lacks is what keeps the request out
--
-- `variants` has the names: policy and binding of the variant, and of what it is a variant of.
CREATE OR REPLACE TEMP TABLE judged_requests AS
WITH judged AS (
    SELECT
        policy, binding, cluster, audit_id, ts,
        CASE
            WHEN bool_or(effect = 'deny') THEN 'deny'
            WHEN bool_or(decision = 'unknown') THEN 'unknown'
            ELSE 'admit'
        END AS outcome,
        coalesce(bool_or(effect = 'deny' AND why IN ('configuration', 'namespaceObject')), false) AS is_configuration
    FROM read_parquet($verdicts)
    WHERE decision <> 'nomatch'
    GROUP BY ALL
)
SELECT
    judged.*,
    NOT EXISTS (
        FROM judged AS own
        WHERE own.policy = variants.policy AND own.binding IS NOT DISTINCT FROM variants.binding
            AND own.cluster = judged.cluster AND own.audit_id = judged.audit_id AND own.ts = judged.ts
    ) AS is_behind
FROM judged JOIN variants ON variants.variant = judged.policy AND variants.variant_binding IS NOT DISTINCT FROM judged.binding
