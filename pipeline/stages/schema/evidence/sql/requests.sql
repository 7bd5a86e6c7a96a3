-- one row per answered request on the objects of one resource, in the order of the answers: the columns of events
SELECT
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, notes, request_object, response_object, flags, review
FROM events
WHERE api_group = $group AND resource = $resource AND stage = 'ResponseComplete'
    AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection', 'get')
    AND ts < coalesce($until, 'infinity'::TIMESTAMPTZ)
ORDER BY stage_ts, cluster, audit_id
