-- one row per (policy, binding): units judged and denied in each half of the time that its requests span
-- A unit that was judged in both halves counts in both.
WITH spans AS (
    SELECT policy, binding, min(ts) + (max(ts) - min(ts)) / 2 AS middle FROM outcomes GROUP BY ALL
),
split AS (
    SELECT o.*, o.ts > s.middle AS is_later
    FROM outcomes AS o JOIN spans AS s ON s.policy = o.policy AND s.binding IS NOT DISTINCT FROM o.binding
    WHERE outcome <> 'unknown'
)
SELECT
    policy, binding,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE NOT is_later) AS earlier_judged,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE NOT is_later AND outcome = 'deny') AS earlier_denied,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE is_later) AS later_judged,
    count(DISTINCT (cluster, namespace, unit)) FILTER (WHERE is_later AND outcome = 'deny') AS later_denied
FROM split
GROUP BY policy, binding
