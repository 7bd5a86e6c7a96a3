-- one row per recorded write of an object in `asked`; and per deletecollection where such an object was, for each of the partitions
-- that hold one. A deletecollection that was refused halfway has deleted some objects before.
-- asked_name: the name in `asked`, a slash for a deletecollection
-- In no order, for to sort whole bodies takes longer than to find them, and in one scan for both; no name of an object holds a slash.
WITH looked_for AS (
    SELECT cluster, resource, place, name, partition FROM asked
    UNION
    SELECT cluster, resource, place, '/', partition FROM asked
)
-- Who wrote says nothing about what was written, and annotations only whether a refusal came halfway and a body was cut.
SELECT
    looked_for.partition, looked_for.name AS asked_name, events.cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, NULL AS user_agent,
    NULL AS user_name, NULL AS user_uid, []::VARCHAR[] AS user_groups, NULL AS user_extra, NULL AS impersonated_user,
    api_group, api_version, events.resource, subresource, namespace, events.name,
    code, status_reason, status_message,
    CASE
        WHEN verb = 'deletecollection' OR map_contains(annotations, 'audit.k8s.io/truncated') THEN annotations
        ELSE MAP {}::MAP(VARCHAR, VARCHAR)
    END AS annotations,
    request_object, response_object, flags
FROM events JOIN looked_for
    ON looked_for.cluster = events.cluster AND looked_for.resource = events.resource
    AND looked_for.place = coalesce(events.namespace, '')
    AND looked_for.name = CASE WHEN verb = 'deletecollection' THEN '/' ELSE object_name(events.name, verb, response_object) END
WHERE stage = 'ResponseComplete' AND ($until IS NULL OR ts < $until)
    AND (verb = 'deletecollection' OR (verb IN ('create', 'update', 'patch', 'delete') AND code BETWEEN 200 AND 299))
