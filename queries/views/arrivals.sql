-- one row per event and kind of source that brought it: (cluster, audit_id, stage, stage_ts, source)
-- source: `webhook`, or `file` for a log file
-- ingest_source: the source itself, such as `file:audit.log`
-- ingest_ts: when it was received; all events of one webhook batch have the same
-- stored: whether the event in the lake is this copy of it
--
-- Nothing in an event says which API server wrote it. Where a control plane has several, they are one source here.
WITH again AS (
    SELECT
        cluster, audit_id, stage, stage_ts, split_part(ingest_source, ':', 1) AS source,
        min(ingest_source) AS ingest_source, min(ingest_ts) AS ingest_ts
    FROM lake_repeats
    GROUP BY ALL
)
SELECT cluster, audit_id, stage, stage_ts, split_part(ingest_source, ':', 1) AS source, ingest_source, ingest_ts, true AS stored
FROM events
UNION ALL
SELECT cluster, audit_id, stage, stage_ts, source, ingest_source, ingest_ts, false
FROM again
WHERE NOT EXISTS (
    FROM events
    WHERE events.cluster = again.cluster AND events.audit_id = again.audit_id AND events.stage = again.stage
        AND events.stage_ts = again.stage_ts AND split_part(events.ingest_source, ':', 1) = again.source
)
