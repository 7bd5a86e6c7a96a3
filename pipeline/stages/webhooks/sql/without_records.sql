-- one row per request whose object the webhook changed, with its bodies, in the order of arrival
-- asks: an earlier state of its object may be asked for
SELECT
    coalesce(verb IN ('update', 'patch'), false) AS asks, 0::INTEGER AS partition,
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events
WHERE stage = 'ResponseComplete'
    AND (cluster, audit_id, ts) IN (SELECT (cluster, audit_id, ts) FROM webhooks_without WHERE said = 'changed')
ORDER BY ts, stage_ts, audit_id
