-- one row per write whose objects decide, with its bodies and the number of its question, in the order of arrival
-- asks: an earlier state of its object may be asked for
SELECT
    coalesce(events.verb IN ('update', 'patch', 'delete'), false) AS asks, 0::INTEGER AS partition, chosen.number,
    events.cluster, events.audit_id, stage, level, events.ts, events.stage_ts, events.verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    events.api_group, events.api_version, events.resource, events.subresource, events.namespace, events.name,
    events.code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events JOIN (
    SELECT cluster, audit_id, ts, stage_ts, number
    FROM conditions_asked JOIN conditions_questions USING (question) JOIN conditions_written USING (number)
) AS chosen USING (cluster, audit_id, ts, stage_ts)
WHERE stage = 'ResponseComplete'
ORDER BY events.ts, events.stage_ts, events.audit_id
