-- one row per batch that the webhook brought: (cluster, received_ts)
-- received_ts: when the lake received it
-- events: events in it; without repeated ones, when the batch was repeated
-- first_ts: earliest stage
-- last_ts: latest stage
-- age_seconds: the age of its newest event at receipt
--
-- An API server sends a batch when it has 400 events or the first is 30 s old. So the newest event of an untroubled batch is
-- younger than that. The first repetition of a failed batch comes ten seconds later (kubernetes/apiserver
-- plugin/pkg/audit/buffered/buffered.go). Two batches that were received in the same microsecond are one row.
SELECT
    cluster, ingest_ts AS received_ts,
    count(*) AS events,
    min(stage_ts) AS first_ts,
    max(stage_ts) AS last_ts,
    epoch(ingest_ts) - epoch(max(stage_ts)) AS age_seconds
FROM arrivals
WHERE source = 'webhook'
GROUP BY cluster, ingest_ts
