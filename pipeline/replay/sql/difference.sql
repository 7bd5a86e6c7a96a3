-- one row per (policy, binding, expression_index) that either run judged: requests by how the two runs differ
-- policy, binding, expression_index: of the new run where both have the row
--
-- Rows meet by request, pass, policy, binding, param and expression. What only one run has was not matched in the other, which admits.
-- A row that either run calls unknown is compared with nothing.
WITH new AS (
    SELECT *, coalesce(param_namespace, '') || '/' || coalesce(param_name, '') AS param
    FROM read_parquet($new) WHERE decision <> 'nomatch' AND expression_index IS NOT NULL
),
old AS (
    SELECT *, coalesce(param_namespace, '') || '/' || coalesce(param_name, '') AS param
    FROM read_parquet($old) WHERE decision <> 'nomatch' AND expression_index IS NOT NULL
),
paired AS (
    SELECT
        coalesce(new.policy, old.policy) AS policy,
        coalesce(new.binding, old.binding) AS binding,
        coalesce(new.expression_index, old.expression_index) AS expression_index,
        CASE
            WHEN 'unknown' IN (coalesce(new.decision, ''), coalesce(old.decision, '')) THEN 'unknown'
            WHEN coalesce(new.effect, 'admit') = 'deny' AND coalesce(old.effect, 'admit') <> 'deny' THEN 'newly_denied'
            WHEN coalesce(new.effect, 'admit') <> 'deny' AND coalesce(old.effect, 'admit') = 'deny' THEN 'newly_allowed'
            WHEN new.message IS DISTINCT FROM old.message AND new.effect = 'deny' THEN 'message_changed'
            ELSE 'unchanged'
        END AS change,
        coalesce(new.audit_id, old.audit_id) AS audit_id,
        coalesce(new.ts, old.ts) AS ts,
        coalesce(new.message, old.message) AS message
    FROM new FULL JOIN old
        ON new.cluster = old.cluster AND new.audit_id = old.audit_id AND new.ts = old.ts AND new.pass = old.pass
        AND new.policy = old.policy AND new.binding IS NOT DISTINCT FROM old.binding AND new.param = old.param
        AND new.expression_index = old.expression_index
)
SELECT
    policy, binding, expression_index,
    count(*) FILTER (change = 'newly_denied') AS newly_denied,
    count(*) FILTER (change = 'newly_allowed') AS newly_allowed,
    count(*) FILTER (change = 'message_changed') AS message_changed,
    count(*) FILTER (change = 'unchanged') AS unchanged,
    count(*) FILTER (change = 'unknown') AS unknown,
    arg_max(audit_id, (ts, audit_id)) FILTER (change = 'newly_denied') AS denied_example,
    arg_max(message, (ts, audit_id)) FILTER (change = 'newly_denied') AS denied_message
FROM paired
GROUP BY ALL
ORDER BY ALL
