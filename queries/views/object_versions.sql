-- one row per whole object that a response carried: (cluster, audit_id, ts, position)
-- position: 0, or the index in the list that a deletecollection answered
-- kind: of the object, with api_version as it was encoded
-- uid: metadata.uid
-- resource_version: metadata.resourceVersion; null in answers to a dry run of a create
-- writer: effective user of the request
-- dry_run: the version was computed and never stored
-- deleted: the version is the last one, as a delete answered it
-- object: JSON
-- source: column of `events` that holds the object
--
-- Status, Table and PartialObjectMetadata are no whole objects. Subresources that speak of another kind (scale, eviction, binding,
-- token) are left out: their bodies are no versions of the object. Lists other than those of deletecollection are left out too.
WITH answers AS (
    SELECT
        *, response_object ->> '$.kind' AS answer_kind
    FROM requests
    WHERE response_object IS NOT NULL AND outcome = 'allowed' AND resource IS NOT NULL
        AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection', 'get')
        AND (subresource IS NULL OR subresource IN ('status', 'ephemeralcontainers', 'resize', 'finalize', 'approval'))
),
objects AS (
    SELECT * EXCLUDE (response_object), 0 AS position, response_object AS object, 'response_object' AS source
    FROM answers
    WHERE verb <> 'deletecollection' AND answer_kind NOT IN ('Status', 'Table', 'PartialObjectMetadata')
    UNION ALL
    SELECT
        * EXCLUDE (response_object, items), generate_subscripts(items, 1) - 1 AS position, unnest(items) AS object,
        'response_object.items' AS source
    FROM (
        SELECT *, response_object -> '$.items[*]' AS items
        FROM answers
        WHERE verb = 'deletecollection' AND answer_kind LIKE '%List' AND answer_kind <> 'PartialObjectMetadataList'
    )
)
SELECT
    cluster, audit_id, ts, stage_ts, position,
    api_group, api_version, resource, subresource,
    coalesce(object ->> '$.kind', regexp_replace(answer_kind, 'List$', '')) AS kind,
    coalesce(object ->> '$.metadata.namespace', '') AS namespace,
    object ->> '$.metadata.name' AS name,
    object ->> '$.metadata.uid' AS uid,
    object ->> '$.metadata.resourceVersion' AS resource_version,
    verb, user_name AS writer, user_agent,
    regexp_matches(request_uri, '[?&]dryRun=[^&]') AS dry_run,
    verb IN ('delete', 'deletecollection') AS deleted,
    object::VARCHAR AS object, source
FROM objects
