-- one row per recorded write of one object until a moment, and per deletecollection that may have reached it; the newest of them
--
-- `bindings`, a resource of its own, also writes a Pod. If the request does not name its object, the body does. Most bodies do not
-- contain the name at all, so they are no candidates.
WITH finished AS NOT MATERIALIZED (
    FROM events
    WHERE stage = 'ResponseComplete' AND cluster = $cluster AND stage_ts <= $until
        AND (resource = $resource OR ($resource = 'pods' AND resource = 'bindings'))
        AND (namespace = $namespace OR namespace IS NULL) -- this reaches the files, and the next line alone would not
        AND (coalesce(namespace, '') = $namespace OR resource = 'namespaces')
),
written AS NOT MATERIALIZED (
    FROM finished
    WHERE list_position(['create', 'update', 'patch', 'delete'], verb) > 0 AND (code IS NULL OR code = 0 OR code BETWEEN 200 AND 299)
),
meant AS (
    FROM written
    WHERE name = $name
    UNION ALL
    FROM written
    WHERE name IS NULL AND verb = 'create' AND contains(response_object, $name)
        AND object_name(name, verb, response_object) = $name
    UNION ALL
    FROM finished
    WHERE verb = 'deletecollection'
)
SELECT
    cluster, audit_id, stage, level, coalesce(ts, stage_ts) AS ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, notes, request_object, response_object, flags, review
FROM meant
ORDER BY stage_ts DESC, ts DESC, audit_id
LIMIT $rows
