-- one row per event that only one of log file and webhook brought, though the other covers its time: (cluster, audit_id, stage, stage_ts)
-- missing_from: `webhook` or `file`: which of them does not have it
--
-- The webhook covers the time from its first to its last event, a log file that from its own first to its own last. With several API
-- servers, events that the webhook alone brought may stand in a log file that was never ingested; events that only a log file holds
-- were written for both and lost on the way to the webhook. A batch that its API server still repeats comes up to 250 s late.
WITH only_one AS (
    SELECT cluster, audit_id, stage, stage_ts, min(source) AS source
    FROM arrivals
    GROUP BY cluster, audit_id, stage, stage_ts
    HAVING min(source) = max(source)
),
posted AS (
    SELECT cluster, min(first_ts) AS first_ts, max(last_ts) AS last_ts FROM sources WHERE source = 'webhook' GROUP BY cluster
),
missing AS (
    SELECT only_one.*, 'webhook' AS missing_from
    FROM only_one JOIN posted USING (cluster)
    WHERE source = 'file' AND stage_ts BETWEEN posted.first_ts AND posted.last_ts
    UNION ALL
    SELECT only_one.*, 'file'
    FROM only_one
    WHERE source = 'webhook' AND EXISTS (
        FROM sources
        WHERE sources.cluster = only_one.cluster AND sources.source = 'file'
            AND only_one.stage_ts BETWEEN sources.first_ts AND sources.last_ts
    )
)
SELECT
    cluster, audit_id, stage, stage_ts, missing_from, ts, level, verb, request_uri, user_name, user_agent,
    api_group, resource, subresource, namespace, name, code
FROM missing JOIN events USING (cluster, audit_id, stage, stage_ts)
