-- one row per policy: the workloads of the later half, and those with a would-be denial that no candidate takes out
-- new: the policy did not match the workload before
WITH missed AS (
    SELECT DISTINCT policy, workload
    FROM exposed_groups ANTI JOIN taken USING (id)
    WHERE is_later AND outcome = 'deny'
),
by_workload AS (
    SELECT
        policy, workload,
        bool_or(NOT is_later) AS was_before,
        bool_or(is_later AND outcome <> 'unknown') AS is_judged
    FROM exposed_groups
    WHERE list_contains($names, policy)
    GROUP BY ALL
)
SELECT
    policy,
    count(*) FILTER (is_judged) AS workloads,
    count(*) FILTER (missed.workload IS NOT NULL) AS workloads_denied,
    count(*) FILTER (is_judged AND NOT was_before) AS new_workloads,
    count(*) FILTER (missed.workload IS NOT NULL AND NOT was_before) AS new_workloads_denied
FROM by_workload LEFT JOIN missed USING (policy, workload)
GROUP BY ALL
