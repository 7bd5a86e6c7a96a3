-- one row per cluster: from when to when it has events
SELECT cluster, min(ts) AS first_ts, max(stage_ts) AS last_ts
FROM events
WHERE $until IS NULL OR ts < $until
GROUP BY cluster
ORDER BY cluster
