-- one row per request in the table `met`, with its bodies and its number there, in the order of arrival
-- asks: an earlier state of its object may be asked for
SELECT
    coalesce(events.verb IN ('update', 'patch', 'delete'), false) AS asks, 0::INTEGER AS partition, met.number,
    events.cluster, events.audit_id, stage, level, events.ts, events.stage_ts, events.verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    events.api_group, events.api_version, events.resource, events.subresource, events.namespace, events.name,
    events.code, status_reason, status_message, annotations, notes, request_object, response_object, flags, review
FROM events JOIN met USING (cluster, audit_id, ts, stage_ts)
WHERE stage = 'ResponseComplete'
ORDER BY events.ts, events.stage_ts, events.audit_id
