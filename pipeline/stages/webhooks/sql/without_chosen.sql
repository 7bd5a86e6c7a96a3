-- one row per request whose object the webhook changed
SELECT *, 0 AS number
FROM reach
WHERE stage = 'ResponseComplete'
    AND (cluster, audit_id, ts) IN (SELECT (cluster, audit_id, ts) FROM webhooks_without WHERE said = 'changed')
