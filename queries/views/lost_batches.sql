-- one row per stretch of a log file of which the webhook brought nothing: (cluster, first_ts)
-- first_ts: the first event of it
-- last_ts: the last event of it
-- events: how many there are in the log file
--
-- An API server encodes a batch as a whole. One event whose body is no JSON, such as an apply that was sent as YAML, makes every attempt
-- fail, and the batch is dropped (kubernetes/apiserver plugin/pkg/audit/webhook/webhook.go); that event is in no log file either. So
-- where ten events in a row were written to the file and not one of them was posted, it was a batch and not a single event.
WITH missing AS MATERIALIZED (
    SELECT cluster, audit_id, stage, stage_ts FROM unshared_events WHERE missing_from = 'webhook'
),
spans AS (
    SELECT cluster, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts FROM missing GROUP BY cluster
),
marked AS (
    SELECT events.cluster, events.stage_ts, events.audit_id, missing.audit_id IS NOT NULL AS is_missing
    FROM events
    JOIN spans ON events.cluster = spans.cluster AND events.stage_ts BETWEEN spans.first_ts AND spans.last_ts
    LEFT JOIN missing
        ON missing.cluster = events.cluster AND missing.audit_id = events.audit_id
        AND missing.stage = events.stage AND missing.stage_ts = events.stage_ts
),
placed AS (
    SELECT *, count(*) FILTER (NOT is_missing) OVER (PARTITION BY cluster ORDER BY stage_ts, audit_id) AS stretch FROM marked
)
SELECT cluster, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts, count(*) AS events
FROM placed
WHERE is_missing
GROUP BY cluster, stretch
HAVING count(*) >= 10
