-- one row per recorded write of an object in `asked`, per recorded read that shows it, and per deletecollection or list in its place
-- partition: a deletecollection has a row for each partition with an object in its place
-- asked_name: the name in `asked`; for a deletecollection or a list a slash, which no name contains
--
-- A deletecollection that was refused halfway deleted some objects before. One scan finds both kinds of rows. They have no order,
-- because sorting whole bodies takes longer than finding them.
WITH looked_for AS (
    SELECT cluster, resource, place, name, partition FROM asked
    UNION
    SELECT cluster, resource, place, '/', partition FROM asked
    UNION
    -- A list of all namespaces.
    SELECT cluster, resource, '', '/', partition FROM asked
)
-- The user of a write does not matter here, nor does the sent body where the answer shows the whole object. Annotations matter only
-- for a refusal halfway, for a truncated body, and for a body without an answer, which webhooks may have changed.
SELECT
    looked_for.partition, looked_for.name AS asked_name, events.cluster, audit_id, stage, level, ts, stage_ts, verb, request_uri, NULL AS user_agent,
    NULL AS user_name, NULL AS user_uid, []::VARCHAR[] AS user_groups, NULL AS user_extra, NULL AS impersonated_user,
    api_group, api_version, events.resource, subresource, namespace, events.name,
    code, status_reason, status_message,
    coalesce(
        verb IN ('create', 'update', 'patch') AND coalesce(subresource, '') NOT IN ('binding', 'eviction')
        AND events.resource <> 'bindings' AND len(flags) = 0
        AND regexp_matches(response_object, '^\{"kind":"[A-Za-z]+","apiVersion":"')
        AND NOT starts_with(response_object, '{"kind":"Table"') AND NOT starts_with(response_object, '{"kind":"PartialObjectMetadata"'),
        false
    ) AS shows_object,
    CASE
        WHEN verb = 'deletecollection' OR response_object IS NULL OR map_contains(annotations, 'audit.k8s.io/truncated')
            OR map_contains(notes, 'redacted') THEN annotations
        ELSE MAP {}::MAP(VARCHAR, VARCHAR)
    END AS annotations,
    notes,
    CASE WHEN NOT shows_object THEN request_object END AS request_object, response_object, flags, review
FROM events JOIN looked_for
    ON looked_for.cluster = events.cluster AND looked_for.resource = events.resource
    AND looked_for.place = object_place(events.api_group, events.resource, events.namespace)
    AND looked_for.name = CASE
        WHEN verb IN ('deletecollection', 'list') THEN '/'
        ELSE object_name(events.name, verb, response_object)
    END
WHERE stage = 'ResponseComplete' AND ($until IS NULL OR ts < $until)
    AND (
        verb = 'deletecollection'
        OR (verb IN ('create', 'update', 'patch', 'delete') AND (coalesce(code, 0) = 0 OR code BETWEEN 200 AND 299))
        OR (verb IN ('get', 'list') AND code BETWEEN 200 AND 299 AND level = 'RequestResponse' AND coalesce(subresource, '') = '')
    )
