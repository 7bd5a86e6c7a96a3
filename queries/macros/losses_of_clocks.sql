-- rows of `losses`: events whose times or copies contradict each other
CREATE MACRO losses_of_clocks() AS TABLE
WITH found AS (
    SELECT
        cluster, 'conflicting' AS kind, stage_ts AS ts, 'another copy came from ' || split_part(ingest_source, ':', 1) AS detail
    FROM lake_repeats
    WHERE conflicting
    UNION ALL
    SELECT cluster, 'clock_backwards', stage_ts, 'a stage before its request'
    FROM events
    WHERE stage_ts < ts
    UNION ALL
    -- Only the webhook's events count here: a log file may be a copy whose times were changed.
    SELECT cluster, 'clock_ahead', stage_ts, 'received before it happened'
    FROM arrivals
    WHERE source = 'webhook' AND stage_ts > ingest_ts + INTERVAL 2 SECONDS
)
SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
FROM found
GROUP BY cluster, kind, detail
