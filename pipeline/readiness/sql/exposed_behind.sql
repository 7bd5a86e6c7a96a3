-- `judged`: one row per (variant of a policy, binding, request) that the variant matched, from a run of both
-- is_behind: whether the policy itself did not match it, so that what the variant lacks is what keeps the request out
--
-- `variants` has the names: policy and binding of the variant, and of what it is a variant of.
CREATE OR REPLACE TEMP TABLE judged AS
WITH outcomes AS (
    SELECT
        policy, binding, cluster, audit_id, ts,
        CASE
            WHEN bool_or(effect = 'deny') THEN 'deny'
            WHEN bool_or(decision = 'unknown') THEN 'unknown'
            ELSE 'admit'
        END AS outcome,
        coalesce(bool_or(effect = 'deny' AND why IN ('configuration', 'namespaceObject')), false) AS is_configuration
    FROM read_parquet($verdicts) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE decision <> 'nomatch'
    GROUP BY ALL
)
SELECT
    outcomes.*,
    NOT EXISTS (
        FROM outcomes AS own
        WHERE own.policy = variants.policy AND own.binding IS NOT DISTINCT FROM variants.binding
            AND own.cluster = outcomes.cluster AND own.audit_id = outcomes.audit_id AND own.ts = outcomes.ts
    ) AS is_behind
FROM outcomes JOIN variants ON variants.variant = outcomes.policy AND variants.variant_binding IS NOT DISTINCT FROM outcomes.binding
