-- one row per stretch of a log file of which the webhook brought nothing: (cluster, first_ts)
-- first_ts: the first event of it
-- last_ts: the last event of it
-- events: how many there are in the log file
--
-- An API server encodes a batch as a whole. One event whose body is not JSON, such as an apply that was sent as YAML, makes every attempt
-- fail, and the batch is dropped (kubernetes/apiserver plugin/pkg/audit/webhook/webhook.go); that event is in no log file either. So
-- where ten events in a row were written to the file and not one of them was posted, it was a batch and not a single event.
WITH missing AS MATERIALIZED (
    SELECT cluster, audit_id, stage, stage_ts FROM unshared_events WHERE missing_from = 'webhook'
),
-- The events of the same time that were posted, or that no log file holds: what comes last before a missing one tells its stretch.
-- What comes before all that is missing tells nothing apart.
bounds AS (
    SELECT cluster, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts FROM missing GROUP BY cluster
),
among AS (
    SELECT events.cluster, audit_id, stage, stage_ts
    FROM events JOIN bounds ON bounds.cluster = events.cluster AND events.stage_ts BETWEEN bounds.first_ts AND bounds.last_ts
),
others AS (
    SELECT events.cluster, events.stage_ts
    FROM among AS events ANTI JOIN missing
    ON missing.audit_id = events.audit_id AND missing.stage_ts = events.stage_ts AND missing.stage = events.stage
        AND missing.cluster = events.cluster
),
placed AS (
    SELECT missing.cluster, missing.stage_ts, others.stage_ts AS after_ts
    FROM missing ASOF LEFT JOIN others ON others.cluster = missing.cluster AND others.stage_ts < missing.stage_ts
)
SELECT cluster, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts, count(*) AS events
FROM placed
GROUP BY cluster, after_ts
HAVING count(*) >= 10
