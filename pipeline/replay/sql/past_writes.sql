-- one row per recorded write of an object in `asked`, and per deletecollection where such an object was
SELECT
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, events.name,
    code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events
WHERE stage = 'ResponseComplete' AND cluster = $cluster AND code BETWEEN 200 AND 299
    AND resource BETWEEN $first_resource AND $last_resource
    AND ($until IS NULL OR ts < $until)
    AND CASE
        WHEN verb IN ('create', 'update', 'patch', 'delete') THEN EXISTS (
            FROM asked
            WHERE asked.resource = events.resource AND asked.place = coalesce(namespace, '')
                AND asked.name = object_name(events.name, verb, response_object)
        )
        WHEN verb = 'deletecollection' THEN EXISTS (
            FROM asked WHERE asked.resource = events.resource AND asked.place = coalesce(namespace, '')
        )
        ELSE false
    END
ORDER BY ts, stage_ts, audit_id
