-- one row per event that a part of a replay looks at: the requests to replay, and the writes that tell the history of their objects
-- is_planned: to be replayed; the others only say what objects were
-- is_asked: somebody asks for the earlier state of this object
WITH in_range AS NOT MATERIALIZED (
    SELECT
        events.*,
        coalesce(namespace, '') AS place,
        CASE
            WHEN name IS NOT NULL OR verb = 'deletecollection' THEN coalesce(name, '')
            ELSE coalesce(response_object ->> '$.metadata.name', '')
        END AS object_name
    FROM events
    WHERE stage = 'ResponseComplete' AND cluster = $cluster AND resource BETWEEN $first_resource AND $last_resource
        AND (resource > $first_resource OR coalesce(namespace, '') >= $first_namespace)
        AND (resource < $last_resource OR coalesce(namespace, '') <= $last_namespace)
        AND ($until IS NULL OR ts < $until)
),
marked AS NOT MATERIALIZED (
    SELECT
        in_range.*, planned.reads_old_object,
        planned.verb IS NOT NULL
            AND ($since IS NULL OR ts >= $since)
            AND ($after_name IS NULL OR object_name > $after_name)
            AND ($last_name IS NULL OR object_name <= $last_name) AS is_planned
    FROM in_range LEFT JOIN planned_classes AS planned
        ON planned.cluster = in_range.cluster AND planned.api_group = in_range.api_group
        AND planned.api_version = in_range.api_version AND planned.resource = in_range.resource
        AND planned.subresource = coalesce(in_range.subresource, '') AND planned.verb = in_range.verb
),
-- Objects whose earlier state somebody asks for: policies that read oldObject, or requests whose answer does not show the object.
asked AS NOT MATERIALIZED (
    SELECT DISTINCT resource, place, object_name
    FROM marked
    WHERE is_planned AND verb IN ('update', 'patch', 'delete') AND (reads_old_object OR code >= 300)
)
SELECT
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message, annotations, request_object, response_object, flags,
    is_planned,
    -- The items of a deletecollection are many objects.
    CASE
        WHEN verb = 'deletecollection' THEN (resource, place) IN (SELECT (resource, place) FROM asked)
        ELSE (resource, place, object_name) IN (SELECT (resource, place, object_name) FROM asked)
    END AS is_asked
FROM marked
WHERE is_planned
    OR (
        is_asked AND code BETWEEN 200 AND 299 AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection')
    )
ORDER BY ts, stage_ts, audit_id
