-- one row per candidate that is precise enough to propose: a label is, only if it hides nothing but would-be denials
-- passing, unknown: the workloads without a would-be denial that it hides
WITH by_workload AS (
    SELECT candidate, workload, bool_or(outcome = 'deny') AS denies, bool_or(outcome = 'admit') AS admits, bool_and(outcome = 'deny') AS is_pure
    FROM taken
    WHERE NOT ($earlier AND is_later)
    GROUP BY ALL
),
counted AS (
    SELECT
        candidate, bool_and(is_pure) AS is_pure,
        count(*) FILTER (admits AND NOT denies) AS passing,
        count(*) FILTER (NOT admits AND NOT denies) AS unknown
    FROM by_workload
    GROUP BY ALL
)
SELECT candidate, policy, binding, kind, value, api_group, resource, namespace, passing, unknown
FROM candidates JOIN exclusion_names USING (exclusion) JOIN counted USING (candidate)
WHERE kind <> 'objectLabel' OR is_pure
