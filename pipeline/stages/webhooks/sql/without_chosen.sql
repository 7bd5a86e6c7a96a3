-- one row per request whose object the webhook changed: (cluster, audit_id, ts, stage_ts)
SELECT cluster, audit_id, ts, stage_ts, 0 AS number
FROM events
WHERE stage = 'ResponseComplete'
    AND (cluster, audit_id, ts) IN (SELECT (cluster, audit_id, ts) FROM webhooks_without WHERE said = 'changed')
