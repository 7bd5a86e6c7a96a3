-- one row per request of a stretch of time and of a class that needs the record of each request: (cluster, audit_id, ts, stage_ts)
SELECT cluster, audit_id, ts, stage_ts, 0 AS number
FROM webhooks_asked
    JOIN webhooks_classes USING (cluster, verb, operation, api_group, api_version, resource, subresource, refused)
WHERE by_record AND webhooks_classes.is_namespaced = (namespace <> '')
    AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
