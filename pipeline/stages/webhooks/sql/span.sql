-- one row per cluster: the times of the first and the last request of a window
SELECT cluster, min(ts) AS first_ts, max(ts) AS last_ts
FROM events
WHERE stage = 'ResponseComplete' AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
GROUP BY cluster
ORDER BY cluster
