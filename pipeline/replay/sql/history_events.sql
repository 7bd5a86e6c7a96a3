-- one row per recorded write of a resource that policies look up beside the request: namespaces, params, definitions, policies
SELECT
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events
WHERE stage = 'ResponseComplete' AND code BETWEEN 200 AND 299 AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection')
    AND (list_contains($resources, api_group || '/' || resource) OR list_contains($groups, api_group))
    AND ($until IS NULL OR ts < $until)
ORDER BY ts, stage_ts, audit_id
