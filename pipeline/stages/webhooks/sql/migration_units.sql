-- one row: how many units were decided by both, and how many of them disagree
-- A unit is one user in one namespace with one resource: retries of one controller say nothing new.
SELECT count(*) AS units, count(*) FILTER (disagrees) AS disagreeing
FROM (
    SELECT bool_or((webhook_says = 'deny') <> (policy_says = 'deny')) AS disagrees
    FROM webhooks_migration
    WHERE webhook_says IN ('allow', 'deny')
        AND (policy_says IN ('admit', 'deny') OR (policy_says = 'nomatch' AND webhook_says = 'deny'))
    GROUP BY cluster, user_name, namespace, resource
)
