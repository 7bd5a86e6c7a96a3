-- one row per (policy, binding, namespace) with a matched request, and what would have become of its requests in each half of the
-- time that the requests of the (policy, binding) span; middle: the end of the earlier half
WITH spans AS (
    SELECT policy, binding, min(ts) + (max(ts) - min(ts)) / 2 AS middle FROM outcomes GROUP BY ALL
)
SELECT
    o.policy AS policy, o.binding AS binding, namespace, any_value(middle) AS middle,
    count(*) AS matched,
    count(*) FILTER (WHERE outcome = 'deny') AS denied,
    count(*) FILTER (WHERE outcome = 'unknown') AS unknown,
    count(DISTINCT (cluster, unit)) FILTER (WHERE outcome = 'deny') AS denied_units,
    count(*) FILTER (WHERE ts <= middle) AS earlier,
    count(*) FILTER (WHERE ts <= middle AND outcome = 'deny') AS earlier_denied,
    count(*) FILTER (WHERE ts > middle) AS later,
    count(*) FILTER (WHERE ts > middle AND outcome = 'deny') AS later_denied
FROM outcomes AS o JOIN spans AS s ON s.policy = o.policy AND s.binding IS NOT DISTINCT FROM o.binding
GROUP BY o.policy, o.binding, namespace
ORDER BY policy, binding NULLS FIRST, denied, matched DESC, namespace
