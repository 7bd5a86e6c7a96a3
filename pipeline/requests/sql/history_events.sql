-- one row per recorded write of a resource that policies look up in addition to the request: namespaces, params, definitions, policies;
-- and per recorded read of a namespace or a param that shows it
-- Only conditions on one column reach the files, and keep bodies of other rows from being read; an IN does not, DuckDB joins it.
WITH looked_up AS (
    FROM events
    WHERE list_position(list_transform($resources, lambda name: split_part(name, '/', 2)), resource) > 0
        AND list_contains($resources, api_group || '/' || resource)
    UNION ALL
    FROM events
    WHERE list_position($groups, api_group) > 0 AND NOT coalesce(list_contains($resources, api_group || '/' || resource), false)
)
SELECT
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, notes, request_object, response_object, flags, review
FROM looked_up
-- A deletecollection that was refused halfway has deleted some objects before.
WHERE stage = 'ResponseComplete' AND (coalesce(code, 0) = 0 OR code BETWEEN 200 AND 299 OR verb = 'deletecollection')
    AND (
        list_position(['create', 'update', 'patch', 'delete', 'deletecollection'], verb) > 0
        OR (
            list_position(['get', 'list'], verb) > 0 AND response_object IS NOT NULL AND coalesce(subresource, '') = ''
            -- Who reads one role, or one policy, shows nothing of the others that are in force.
            AND NOT list_contains(['rbac.authorization.k8s.io', 'admissionregistration.k8s.io', 'apiextensions.k8s.io'], api_group)
        )
    )
    AND ($until IS NULL OR ts < $until)
ORDER BY ts, stage_ts, audit_id
