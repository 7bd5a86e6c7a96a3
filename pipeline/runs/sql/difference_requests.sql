-- one row per policy that either run judged: requests by how the two runs differ
--
-- A policy denies a request if any binding, param, expression or pass of it does. The request is unknown if none of them denies it
-- and one is unknown.
WITH requests AS (
    SELECT
        run, cluster, audit_id, ts, policy,
        CASE
            WHEN bool_or(coalesce(effect = 'deny', false)) THEN 'deny' WHEN bool_or(decision = 'unknown') THEN 'unknown' ELSE 'admit'
        END AS effect
    FROM (
        SELECT 'new' AS run, * FROM read_parquet($new) UNION ALL SELECT 'old' AS run, * FROM read_parquet($old)
    )
    WHERE decision <> 'nomatch'
    GROUP BY ALL
),
paired AS (
    SELECT policy, coalesce(new.effect, 'admit') AS after, coalesce(old.effect, 'admit') AS before
    FROM (FROM requests WHERE run = 'new') AS new FULL JOIN (FROM requests WHERE run = 'old') AS old
        USING (cluster, audit_id, ts, policy)
)
SELECT
    policy,
    count(*) FILTER (after = 'deny' AND before = 'admit') AS newly_denied,
    count(*) FILTER (after = 'admit' AND before = 'deny') AS newly_allowed,
    count(*) FILTER (after = 'deny' AND before = 'deny') AS still_denied,
    count(*) FILTER (after = 'admit' AND before = 'admit') AS still_allowed,
    count(*) FILTER ('unknown' IN (after, before)) AS unknown
FROM paired
GROUP BY policy
ORDER BY policy
