-- one row per (policy, binding): releases of units in judged requests, and steps from one to the next
--
-- Controllers copy the template of their owner and add to it. So a unit has as many releases as the one of its resources that has
-- the most.
WITH by_resource AS (
    SELECT policy, binding, cluster, namespace, unit, resource, count(DISTINCT release) AS releases
    FROM outcomes
    WHERE outcome <> 'unknown' AND release IS NOT NULL
    GROUP BY ALL
),
by_unit AS (
    SELECT policy, binding, cluster, namespace, unit, max(releases) AS releases
    FROM by_resource
    GROUP BY ALL
)
SELECT policy, binding, sum(releases)::BIGINT AS releases, sum(releases - 1)::BIGINT AS release_cycles
FROM by_unit
GROUP BY ALL
