-- one row per request of share $share of $shares (of objects) and of a class that needs the record of each request, with its bodies, in the order of arrival
-- asks: an earlier state of its object may be asked for
SELECT
    coalesce(events.verb IN ('update', 'patch', 'delete'), false) AS asks, 0::INTEGER AS partition,
    events.cluster, events.audit_id, stage, level, events.ts, events.stage_ts, events.verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    events.api_group, events.api_version, events.resource, events.subresource, events.namespace, events.name,
    events.code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events JOIN (
    SELECT cluster, audit_id, ts, stage_ts
    FROM webhooks_asked
        JOIN webhooks_classes USING (cluster, verb, operation, api_group, api_version, resource, subresource, refused)
    WHERE by_record AND webhooks_classes.is_namespaced = (namespace <> '')
) AS chosen USING (cluster, audit_id, ts, stage_ts)
WHERE stage = 'ResponseComplete'
    AND ($shares = 1 OR hash(events.cluster, events.resource, events.namespace, events.name) % $shares = $share)
ORDER BY events.ts, events.stage_ts, events.audit_id
