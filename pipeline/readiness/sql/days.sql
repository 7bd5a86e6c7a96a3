-- one row per (policy, binding, UTC day) with a matched request
SELECT
    policy,
    binding,
    ts::DATE AS day,
    count(*) AS matched,
    count(*) FILTER (WHERE outcome = 'deny') AS denied,
    count(*) FILTER (WHERE outcome = 'unknown') AS unknown
FROM outcomes
GROUP BY ALL
ORDER BY ALL
