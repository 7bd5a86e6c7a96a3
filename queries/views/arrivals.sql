-- one row per event and kind of source that brought it: (cluster, audit_id, stage, stage_ts, source)
-- source: `webhook`, or `file` for a log file
-- ingest_source: the source itself, such as `file:audit.log`
-- ingest_ts: when it was received; all events of one webhook batch have the same
-- stored: whether the event in the lake is this copy of it
--
-- Nothing in an event says which API server wrote it. Where a control plane has several, they count as one source here.
--
-- A repeat is kept if it came from another kind of source or has other content. So only a repeat with other content needs a check
-- whether the lake has the event from that kind of source already.
WITH again AS (
    FROM lake_repeats
    WHERE NOT conflicting
    UNION ALL
    FROM lake_repeats AS odd
    WHERE conflicting AND NOT EXISTS (
        FROM events
        WHERE events.cluster = odd.cluster AND events.audit_id = odd.audit_id AND events.stage = odd.stage
            AND events.stage_ts = odd.stage_ts AND split_part(events.ingest_source, ':', 1) = split_part(odd.ingest_source, ':', 1)
    )
)
SELECT cluster, audit_id, stage, stage_ts, split_part(ingest_source, ':', 1) AS source, ingest_source, ingest_ts, true AS stored
FROM events
UNION ALL
SELECT
    cluster, audit_id, stage, stage_ts, split_part(ingest_source, ':', 1) AS source, min(ingest_source), min(ingest_ts), false
FROM again
GROUP BY cluster, audit_id, stage, stage_ts, split_part(ingest_source, ':', 1)
