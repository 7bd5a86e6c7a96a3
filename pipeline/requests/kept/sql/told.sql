-- one row per event in `asked_events` with a body: (cluster, audit_id, stage, stage_ts), with what its bodies tell of its object
-- name: of the object that the request names, whatever its subresource; `*` where nothing tells it
-- object_name: as the macro of that name
-- answer_kind: the kind of the response body, where it stands first, as in every body that a server encodes; else empty
-- body_kind: of the most complete body; the following columns are of it, too
-- owner_kind, owner_name: of the object's controller, where the body names one
-- release_of_object: what makes two releases of a unit differ: the container images, or else the content other than metadata and status;
--   null for requests that do not show the object
-- labels: JSON of the object's labels; null where this request does not hold the object
-- generate_name: what the server made the name of the object from; empty where a client named it, or where it is not recorded
-- marks: JSON of the parts of the metadata that name teams and tools
--
-- To read a body as JSON costs more than all else here, so that most fields are read at once.
WITH bodies AS (
    SELECT
        cluster, audit_id, ts, stage, stage_ts, verb, subresource,
        object_name(name, verb, response_object) AS object_name,
        coalesce(regexp_extract(left(response_object::VARCHAR, 200), '"kind"\s*:\s*"([^"]*)"', 1), '') AS answer_kind,
        recorded_object(response_object, request_object) AS body
    FROM asked_events
    WHERE response_object IS NOT NULL OR request_object IS NOT NULL
),
parts AS (
    SELECT
        *,
        json_extract(body, [
            '$.kind', '$.metadata.name', '$.metadata.generateName', '$.metadata.labels', '$.metadata.ownerReferences',
            '$.metadata.deletionTimestamp', '$.metadata.annotations'
        ]) AS parts
    FROM bodies
),
described AS (
    SELECT
        * EXCLUDE (parts),
        parts[1] ->> '$' AS body_kind,
        json_type(body, '$.metadata') IS NOT NULL AS has_metadata,
        parts[2] ->> '$' AS own_name,
        parts[3] ->> '$' AS generate_name,
        parts[4] AS labels,
        CASE WHEN parts[5] IS NOT NULL THEN controller_of(json_object('metadata', json_object('ownerReferences', parts[5]))) END AS controller,
        (parts[6] ->> '$') IS NOT NULL AS is_being_deleted,
        parts[7] AS annotations
    FROM parts
)
SELECT
    cluster, audit_id, ts, stage, stage_ts,
    object_name, answer_kind, body_kind, has_metadata,
    controller ->> '$.kind' AS owner_kind,
    controller ->> '$.name' AS owner_name,
    coalesce(nullif(object_name, ''), own_name, generate_name || '*', '*') AS name,
    labels ->> '$.pod-template-hash' AS template_hash,
    is_being_deleted,
    CASE
        WHEN coalesce(subresource, '') <> '' OR verb NOT IN ('create', 'update', 'patch') THEN NULL
        WHEN contains(body::VARCHAR, '"image"') AND len(json_extract(body, '$.spec..image')) > 0
            THEN md5(list_sort(json_extract_string(body, '$.spec..image'))::VARCHAR)
        ELSE md5(json_merge_patch(body, '{"metadata": null, "status": null}')::VARCHAR)
    END AS release_of_object,
    CASE WHEN verb IN ('create', 'update', 'patch') AND has_metadata THEN coalesce(labels ->> '$', '{}') END AS labels,
    coalesce(generate_name, '') AS generate_name,
    CASE WHEN has_metadata THEN json_object(
        'labels', labels, 'annotations', annotations,
        'managedFields', list_transform(
            json_extract(body, '$.metadata.managedFields[*].manager'), lambda manager: json_object('manager', manager)
        )
    )::VARCHAR END AS marks
FROM described
