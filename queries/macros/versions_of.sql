-- one row per whole object that a response carried; the columns are those of object_versions
-- asked: a name: objects whose requests have another name are skipped before any body is read; null for all
--
-- NOT MATERIALIZED pushes a query's conditions on time and resource down to the files. Only bodies name an object that was created
-- under a generated name or deleted by a deletecollection. If its body holds the asked name, it is not skipped.
CREATE MACRO versions_of(asked) AS TABLE
WITH answers AS NOT MATERIALIZED (
    SELECT
        *, response_object ->> '$.kind' AS answer_kind
    FROM folded_requests
    -- The code alone says that a request was allowed; to plan the rules of `reach` takes longer than to plan the rest.
    WHERE response_object IS NOT NULL AND code BETWEEN 1 AND 399 AND resource IS NOT NULL
        AND list_position(['create', 'update', 'patch', 'delete', 'deletecollection', 'get'], verb) > 0
        AND (subresource IS NULL OR list_position(['status', 'ephemeralcontainers', 'resize', 'finalize', 'approval'], subresource) > 0)
        AND (asked IS NULL OR name = asked OR name IS NULL)
        AND (asked IS NULL OR contains(response_object, asked))
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
