-- `changed`: one row per (policy, binding, request) whose denial is new, stays, goes or is unknown; fates are those of change.py
-- `outcomes_before` has the base's outcomes under the names that its policies have now; `outcomes` those of the new version
--
-- Rows of a binding of the base, fate gone, bear that binding's name. $unbound are the policies that the new version has without a
-- binding: whatever binding they get, the base's policy without a binding is taken to have had the same.
CREATE OR REPLACE TEMP TABLE changed AS
WITH before AS (
    SELECT
        * REPLACE (is_enforced AND (binding IS NOT NULL OR list_contains($unbound, policy)) AS is_enforced),
        outcome = 'unknown'
            AND CASE WHEN binding IS NULL THEN list_contains($unbound, policy) ELSE list_contains(actions, 'Deny') END AS is_open
    FROM outcomes_before
),
after AS (
    SELECT *, outcome = 'unknown' AND (binding IS NULL OR list_contains(actions, 'Deny')) AS is_open FROM outcomes
),
-- A request is denied if any binding denies it, so each version is taken as a whole.
any_before AS (
    SELECT policy, cluster, audit_id, ts, bool_or(is_enforced) AS is_denied, bool_or(is_open) AS is_open FROM before GROUP BY ALL
),
any_after AS (
    SELECT policy, cluster, audit_id, ts, bool_or(is_enforced) AS is_denied, bool_or(is_open) AS is_open FROM after GROUP BY ALL
),
fates AS (
    SELECT
        CASE
            WHEN n.is_enforced AND coalesce(b.is_denied, false) THEN 'kept'
            WHEN n.is_enforced AND coalesce(b.is_open, false) THEN 'perhaps new'
            WHEN n.is_enforced THEN 'new'
            WHEN n.is_open AND NOT coalesce(b.is_denied, false) THEN 'unknown'
            WHEN n.outcome = 'deny' THEN 'not enforced'
        END AS fate,
        n.*
    FROM after AS n
    LEFT JOIN any_before AS b ON b.policy = n.policy AND b.cluster = n.cluster AND b.audit_id = n.audit_id AND b.ts = n.ts
    UNION ALL BY NAME
    SELECT 'gone' AS fate, o.*
    FROM before AS o
    LEFT JOIN any_after AS n ON n.policy = o.policy AND n.cluster = o.cluster AND n.audit_id = o.audit_id AND n.ts = o.ts
    WHERE o.is_enforced AND NOT coalesce(n.is_denied, false) AND NOT coalesce(n.is_open, false)
)
FROM fates WHERE fate IS NOT NULL
