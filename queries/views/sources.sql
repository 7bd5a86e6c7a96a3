-- one row per (cluster, ingest_source): the events that one log file, or the webhook, brought, and their times
-- source: `webhook` or `file`
-- events: events that it brought
-- stored: those that no other source had brought before
-- first_ts: earliest stage
-- last_ts: latest stage
-- last_ingest_ts: the latest receipt from it
SELECT
    cluster, ingest_source, source,
    count(*) AS events,
    count(*) FILTER (stored) AS stored,
    min(stage_ts) AS first_ts,
    max(stage_ts) AS last_ts,
    max(ingest_ts) AS last_ingest_ts
FROM arrivals
GROUP BY cluster, ingest_source, source
ORDER BY cluster, source, last_ts DESC
