-- one row per (stage, policy): how many requests it would newly refuse first, in the order of the stages; and one without a policy:
-- the requests that some given manifest is for, and how many that succeeded nobody refuses for certain and one does not know
-- newly: against the record where the stage compares with it, of requests that succeeded
WITH passed AS (
    FROM together SEMI JOIN (FROM requests SELECT cluster, audit_id, ts WHERE code < 300) USING (cluster, audit_id, ts)
),
refusals AS (
    SELECT cluster, audit_id, ts, min_by({stage: stage, policy: policy}, (place, policy)) AS refused
    FROM passed
    WHERE effect = 'deny' AND coalesce(flip, 'newly-denied') = 'newly-denied'
    GROUP BY ALL
),
open AS (
    FROM passed ANTI JOIN refusals USING (cluster, audit_id, ts)
    SELECT count(DISTINCT (cluster, audit_id, ts)) AS requests
    WHERE decision = 'unknown'
)
SELECT refused.stage AS stage, refused.policy AS policy, count(*) AS requests, 0::BIGINT AS unknown
FROM refusals
GROUP BY ALL
UNION ALL
SELECT NULL, NULL, count(DISTINCT (cluster, audit_id, ts)), (SELECT requests FROM open)
FROM together
WHERE decision <> 'nomatch'
ORDER BY requests DESC, policy
