-- one row per recorded request of one auditID, as reconstruction reads it; clients may choose an auditID and repeat it
SELECT
    cluster, audit_id, stage, level, coalesce(ts, stage_ts) AS ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, notes, request_object, response_object, flags, review
FROM events
WHERE stage = 'ResponseComplete' AND cluster = $cluster AND audit_id = $audit_id
ORDER BY ts DESC, stage_ts DESC
LIMIT $rows
