-- one row per stretch of a log file without any event from the webhook: (cluster, first_ts)
-- first_ts: the first event of it
-- last_ts: the last event of it
-- events: how many events of the stretch are in the log file
--
-- An API server encodes a batch as a whole. One event whose body is not JSON, such as an apply sent as YAML, makes every attempt
-- fail. Then the server drops the batch (kubernetes/apiserver plugin/pkg/audit/webhook/webhook.go). That event is missing from the
-- log file, too. So ten events in a row that were written to the file and never posted are a lost batch, not single lost events.
WITH missing AS MATERIALIZED (
    SELECT cluster, audit_id, stage, stage_ts FROM unshared_events WHERE missing_from = 'webhook'
),
-- The events at the same time that were posted, or that no log file holds. The last of them before a missing event identifies its
-- stretch; those before all missing events are not needed.
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
