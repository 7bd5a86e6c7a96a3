-- one row per event that only one of log file and webhook brought, though the other covers its time: (cluster, audit_id, stage, stage_ts)
-- missing_from: `webhook` or `file`: which of them lacks it
--
-- The webhook covers the time from its first to its last event, a log file the time from its own first to its own last. With
-- several API servers, events that only the webhook brought may be in a log file that was never ingested. Events that only a log
-- file holds were written for both and lost on the way to the webhook. A batch that its API server still repeats comes up to 250 s
-- late.
WITH carried AS (
    SELECT cluster, ingest_source, split_part(ingest_source, ':', 1) AS source, stage_ts FROM events
    UNION ALL
    SELECT cluster, ingest_source, split_part(ingest_source, ':', 1), stage_ts FROM lake_repeats
),
posted AS (
    SELECT cluster, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts FROM carried WHERE source = 'webhook' GROUP BY cluster
),
logged AS (
    SELECT cluster, min(stage_ts) AS first_ts, max(stage_ts) AS last_ts FROM carried WHERE source = 'file' GROUP BY cluster, ingest_source
),
asked AS (
    SELECT events.*, 'file' AS source, 'webhook' AS missing_from
    FROM events JOIN posted ON posted.cluster = events.cluster AND events.stage_ts BETWEEN posted.first_ts AND posted.last_ts
    WHERE split_part(ingest_source, ':', 1) = 'file'
    UNION ALL
    SELECT events.*, 'webhook', 'file'
    FROM events SEMI JOIN logged ON logged.cluster = events.cluster AND events.stage_ts BETWEEN logged.first_ts AND logged.last_ts
    WHERE split_part(ingest_source, ':', 1) = 'webhook'
),
-- The lake has every event once, from the source that brought it first; a repeat shows that another source brought it, too.
missing AS (
    FROM asked ANTI JOIN lake_repeats AS again
    ON again.audit_id = asked.audit_id AND again.stage_ts = asked.stage_ts AND again.stage = asked.stage
        AND again.cluster = asked.cluster AND split_part(again.ingest_source, ':', 1) <> asked.source
)
SELECT
    cluster, audit_id, stage, stage_ts, missing_from, ts, level, verb, request_uri, user_name, user_agent,
    api_group, resource, subresource, namespace, name, code
FROM missing
