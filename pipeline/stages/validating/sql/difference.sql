-- one row per (policy, binding, expression_index) that either run judged: requests by how the two runs differ
-- expression_index: null for what stands for all expressions, such as a configuration error
--
-- Rows meet by request, pass, policy, binding and expression: an expression denies if it does with any param. What only one run has
-- was not matched in the other, which admits, unless one decision stands there for all expressions. What either run cannot judge is
-- compared with nothing.
WITH rows AS (
    SELECT
        *,
        -- A row of the whole sums up the others unless it stands alone or denies for itself.
        expression_index IS NULL AND (
            (bypasses_actions AND decision <> 'unknown') OR count(expression_index) OVER (
                PARTITION BY run, cluster, audit_id, ts, pass, policy, binding, param_namespace, param_name
            ) = 0
        ) AS is_whole
    FROM (
        SELECT 'new' AS run, * FROM read_parquet($new) UNION ALL SELECT 'old' AS run, * FROM read_parquet($old)
    )
    WHERE decision <> 'nomatch'
),
judged AS (
    SELECT
        run, cluster, audit_id, ts, pass, policy, binding, expression_index,
        bool_or(is_whole) AS is_whole,
        min(message) FILTER (effect = 'deny') AS message,
        CASE
            WHEN bool_or(coalesce(effect = 'deny', false)) THEN 'deny' WHEN bool_or(decision = 'unknown') THEN 'unknown' ELSE 'admit'
        END AS effect
    FROM rows
    WHERE is_whole OR expression_index IS NOT NULL
    GROUP BY run, cluster, audit_id, ts, pass, policy, binding, expression_index
),
-- What one run says of a binding as a whole, and by what stands for all of its expressions.
bindings AS (
    SELECT
        run, cluster, audit_id, ts, pass, policy, binding,
        CASE WHEN bool_or(effect = 'deny') THEN 'deny' WHEN bool_or(effect = 'unknown') THEN 'unknown' ELSE 'admit' END AS overall,
        CASE
            WHEN bool_or(effect = 'deny' AND is_whole) THEN 'deny' WHEN bool_or(effect = 'unknown' AND is_whole) THEN 'unknown'
            ELSE 'admit'
        END AS whole
    FROM judged
    GROUP BY ALL
),
paired AS (
    SELECT
        coalesce(new.cluster, old.cluster) AS cluster, coalesce(new.audit_id, old.audit_id) AS audit_id,
        coalesce(new.ts, old.ts) AS ts, coalesce(new.pass, old.pass) AS pass,
        coalesce(new.policy, old.policy) AS policy, coalesce(new.binding, old.binding) AS binding,
        coalesce(new.expression_index, old.expression_index) AS expression_index,
        new.effect AS new_effect, old.effect AS old_effect, new.message AS new_message, old.message AS old_message
    FROM (FROM judged WHERE run = 'new') AS new FULL JOIN (FROM judged WHERE run = 'old') AS old
        ON new.cluster = old.cluster AND new.audit_id = old.audit_id AND new.ts = old.ts AND new.pass = old.pass
        AND new.policy = old.policy AND new.binding IS NOT DISTINCT FROM old.binding
        AND new.expression_index IS NOT DISTINCT FROM old.expression_index
),
effects AS (
    SELECT
        paired.*,
        coalesce(new_effect, CASE WHEN expression_index IS NULL THEN in_new.overall ELSE in_new.whole END, 'admit') AS after,
        coalesce(old_effect, CASE WHEN expression_index IS NULL THEN in_old.overall ELSE in_old.whole END, 'admit') AS before
    FROM paired
        LEFT JOIN bindings AS in_new ON in_new.run = 'new' AND in_new.cluster = paired.cluster AND in_new.audit_id = paired.audit_id
            AND in_new.ts = paired.ts AND in_new.pass = paired.pass AND in_new.policy = paired.policy
            AND in_new.binding IS NOT DISTINCT FROM paired.binding
        LEFT JOIN bindings AS in_old ON in_old.run = 'old' AND in_old.cluster = paired.cluster AND in_old.audit_id = paired.audit_id
            AND in_old.ts = paired.ts AND in_old.pass = paired.pass AND in_old.policy = paired.policy
            AND in_old.binding IS NOT DISTINCT FROM paired.binding
),
changes AS (
    SELECT
        *,
        CASE
            WHEN 'unknown' IN (after, before) THEN 'unknown'
            WHEN after = 'deny' AND before <> 'deny' THEN 'newly_denied'
            WHEN after <> 'deny' AND before = 'deny' THEN 'newly_allowed'
            WHEN after = 'deny' AND new_message IS DISTINCT FROM old_message AND new_effect = old_effect THEN 'message_changed'
            ELSE 'unchanged'
        END AS change
    FROM effects
)
SELECT
    policy, binding, expression_index,
    count(*) FILTER (change = 'newly_denied') AS newly_denied,
    count(*) FILTER (change = 'newly_allowed') AS newly_allowed,
    count(*) FILTER (change = 'message_changed') AS message_changed,
    count(*) FILTER (change = 'unchanged') AS unchanged,
    count(*) FILTER (change = 'unknown') AS unknown,
    arg_max(audit_id, (ts, audit_id)) FILTER (change = 'newly_denied') AS denied_example,
    arg_max(new_message, (ts, audit_id)) FILTER (change = 'newly_denied') AS denied_message
FROM changes
GROUP BY ALL
ORDER BY policy, binding, expression_index NULLS FIRST
