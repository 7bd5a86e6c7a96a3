-- one row per recorded write of an object in `asked`, and per deletecollection where such an object was; a deletecollection that
-- was refused halfway has deleted some objects before
WITH finished AS (
    FROM events
    WHERE stage = 'ResponseComplete' AND cluster = $cluster AND resource BETWEEN $first_resource AND $last_resource
        AND ($until IS NULL OR ts < $until)
),
-- Each of the two is one semi-join; a single condition for both would be tried on every pair.
found AS (
    FROM finished
    WHERE verb IN ('create', 'update', 'patch', 'delete') AND code BETWEEN 200 AND 299
        AND (resource, coalesce(namespace, ''), object_name(name, verb, response_object)) IN (SELECT (resource, place, name) FROM asked)
    UNION ALL
    FROM finished
    WHERE verb = 'deletecollection' AND (resource, coalesce(namespace, '')) IN (SELECT (resource, place) FROM asked)
)
-- Who wrote says nothing about what was written, and annotations only whether a refusal came halfway and a body was cut.
SELECT
    cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, NULL AS user_agent,
    NULL AS user_name, NULL AS user_uid, []::VARCHAR[] AS user_groups, NULL AS user_extra, NULL AS impersonated_user,
    api_group, api_version, resource, subresource, namespace, name,
    code, status_reason, status_message,
    CASE
        WHEN verb = 'deletecollection' OR map_contains(annotations, 'audit.k8s.io/truncated') THEN annotations
        ELSE MAP {}::MAP(VARCHAR, VARCHAR)
    END AS annotations,
    request_object, response_object, flags
FROM found
ORDER BY ts, stage_ts, audit_id
