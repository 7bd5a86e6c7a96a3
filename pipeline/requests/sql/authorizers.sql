-- one row per cluster: recorded authorization decisions, and how many of them neither RBAC, Node nor the superuser group can have made
SELECT
    cluster,
    count(*) AS decisions,
    count(*) FILTER (
        decision = 'allow' AND NOT starts_with(reason, 'RBAC: allowed by ')
        AND NOT list_contains(user_groups, 'system:masters') AND NOT list_contains(user_groups, 'system:nodes')
    ) AS by_others
FROM (
    SELECT
        cluster, user_groups,
        annotations['authorization.k8s.io/decision'] AS decision,
        coalesce(annotations['authorization.k8s.io/reason'], '') AS reason
    FROM requests
    WHERE $until IS NULL OR ts < $until
)
WHERE decision IS NOT NULL
GROUP BY cluster
ORDER BY cluster
