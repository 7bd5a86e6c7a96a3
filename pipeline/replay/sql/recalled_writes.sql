-- one row per recorded write of one object until a moment, and per deletecollection that may have reached it; the newest of them
-- A pod is also written by `bindings`, a resource of its own.
WITH finished AS (
    FROM events
    WHERE stage = 'ResponseComplete' AND cluster = $cluster AND stage_ts <= $until
        AND (resource = $resource OR ($resource = 'pods' AND resource = 'bindings'))
        AND (coalesce(namespace, '') = $namespace OR resource = 'namespaces')
)
SELECT
    cluster, audit_id, stage, level, coalesce(ts, stage_ts) AS ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, request_object, response_object, flags
FROM finished
WHERE verb = 'deletecollection' OR (
    verb IN ('create', 'update', 'patch', 'delete') AND code BETWEEN 200 AND 299
    AND object_name(name, verb, response_object) = $name
)
ORDER BY stage_ts DESC, ts DESC, audit_id
LIMIT $rows
