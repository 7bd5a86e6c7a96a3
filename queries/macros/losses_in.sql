-- the rows of `losses` from one part of the ledger, or from all; one part at a time needs the memory of the largest part only
-- part: bodies, sources, versions, answers, clocks, silences, deliveries, batches or quarantine, see queries/ledger.py; null for all
CREATE MACRO losses_in(part) AS TABLE
WITH ends AS (
    SELECT cluster, max(stage_ts) AS end_ts FROM events GROUP BY cluster
),
writes AS (
    SELECT
        *,
        CASE
            WHEN request_object IS NULL AND list_contains(flags, 'redacted') THEN 'redacted'
            WHEN request_object IS NULL AND list_contains(flags, 'truncated') THEN 'truncated'
            WHEN request_object IS NULL AND level = 'Metadata' THEN 'level_metadata'
            WHEN level = 'Request' AND NOT list_contains(flags, 'redacted') AND NOT list_contains(flags, 'truncated')
                THEN 'level_request'
        END AS withheld_by
    FROM admission_writes
    WHERE ran <> 'no' AND operation IN ('CREATE', 'UPDATE') AND response_object IS NULL
),
found AS (
    SELECT cluster, withheld_by AS kind, ts, resource_label(api_group, resource, subresource) AS detail
    FROM writes
    WHERE withheld_by IS NOT NULL AND (part IS NULL OR part = 'bodies')
    UNION ALL
    SELECT DISTINCT ON (cluster, audit_id, ts, missing_from)
        cluster, CASE missing_from WHEN 'webhook' THEN 'never_posted' ELSE 'never_logged' END, coalesce(ts, stage_ts),
        resource_label(api_group, resource, subresource)
    FROM unshared_events
    WHERE part IS NULL OR part = 'sources'
    UNION ALL
    SELECT cluster, 'unseen_write', ts, resource_label(api_group, resource, subresource)
    FROM unseen_writes
    WHERE part IS NULL OR part = 'versions'
    UNION ALL
    -- An API server answers within a minute, or ends the request itself.
    SELECT
        requests.cluster, CASE stage WHEN 'RequestReceived' THEN 'unanswered' ELSE 'unended' END, ts,
        resource_label(api_group, resource, subresource)
    FROM requests JOIN ends USING (cluster)
    WHERE (part IS NULL OR part = 'answers') AND NOT complete AND outcome <> 'authentication'
        AND stage_ts < end_ts - CASE WHEN is_long_running(verb, subresource) THEN INTERVAL 1 HOUR ELSE INTERVAL 2 MINUTES END
        AND NOT (stage = 'RequestReceived' AND is_long_running(verb, subresource))
    UNION ALL
    SELECT cluster, 'conflicting', stage_ts, 'another copy came from ' || split_part(ingest_source, ':', 1)
    FROM lake_repeats
    WHERE conflicting AND (part IS NULL OR part = 'clocks')
    UNION ALL
    SELECT cluster, 'clock_backwards', stage_ts, 'a stage before its request'
    FROM events
    WHERE stage_ts < ts AND (part IS NULL OR part = 'clocks')
    UNION ALL
    -- Only the webhook's events count here: a log file may be a copy whose times were changed.
    SELECT cluster, 'clock_ahead', stage_ts, 'received before it happened'
    FROM arrivals
    WHERE source = 'webhook' AND stage_ts > ingest_ts + INTERVAL 2 SECONDS AND (part IS NULL OR part = 'clocks')
),
counted AS (
    SELECT cluster, kind, count(*) AS count, min(ts) AS first_ts, max(ts) AS last_ts, detail
    FROM found
    GROUP BY cluster, kind, detail
    UNION ALL
    SELECT
        cluster, 'silence', count(*), min(first_ts), max(last_ts),
        format('the longest lasted {:.0f} s; usual are up to {:.1f} s', max(seconds), max(usual_seconds))
    FROM silences
    WHERE part IS NULL OR part = 'silences'
    GROUP BY cluster
    UNION ALL
    SELECT cluster, 'burst', count(*), min(first_ts), max(last_ts), format('up to {:d} events in ten seconds', max(events))
    FROM bursts
    WHERE part IS NULL OR part = 'deliveries'
    GROUP BY cluster
    UNION ALL
    SELECT cluster, 'late', count(*), min(received_ts), max(received_ts), format('up to {:.0f} s old', max(age_seconds))
    FROM deliveries
    WHERE age_seconds > 40 AND (part IS NULL OR part = 'deliveries')
    GROUP BY cluster
    UNION ALL
    SELECT cluster, 'lost_batch', count(*), min(first_ts), max(last_ts), format('up to {:d} events in a row', max(events))
    FROM lost_batches
    WHERE part IS NULL OR part = 'batches'
    GROUP BY cluster
    UNION ALL
    SELECT coalesce(cluster, ''), 'quarantined', count(*), min(received_ts), max(received_ts), source
    FROM quarantined
    WHERE part IS NULL OR part = 'quarantine'
    GROUP BY ALL
)
FROM counted
