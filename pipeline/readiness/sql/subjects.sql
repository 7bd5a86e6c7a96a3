-- one row per request that some policy matched: (cluster, audit_id, ts), with what it is about and who sent it
-- kind, name: of the object that the request names, whatever its subresource
-- owner_kind, owner_name: of the object's controller, where the recorded body is the object and has one
-- is_whole: whether the recorded body is the object, so that it shows the controller if there is one
-- release: what makes two releases of a unit differ: the container images, or else the content other than metadata and status; null for
--   requests that do not show the object
-- labels: JSON of the object's labels; null where this request does not hold the object
-- generate_name: what the server made the name of the object from; empty where a client named it, or where it is not recorded
-- marks: JSON of the parts of the metadata that name teams and tools
-- is_finalizing: a write to an object that is being deleted
--
-- An auditID may be repeated, and the kind of a custom resource is null until `subjects_repeated` and `subjects_custom` ran: here no
-- window and no second look holds all rows at a time.
CREATE OR REPLACE TEMP TABLE subjects AS
WITH bodies AS (
    SELECT
        r.cluster, r.audit_id, r.ts, r.stage_ts, r.verb, r.api_group, r.resource, r.subresource,
        coalesce(r.user_name, '') AS user_name,
        r.user_groups,
        coalesce(r.user_agent, '') AS user_agent,
        coalesce(r.namespace, '') AS namespace,
        object_name(r.name, r.verb, r.response_object) AS object_name,
        recorded_object(r.response_object, r.request_object) AS body,
        -- To read a body as JSON costs more than all else here.
        json_extract(body, ['$.kind', '$.metadata']) AS parts,
        parts[2] AS metadata
    FROM folded_requests AS r
    SEMI JOIN judged AS j ON r.cluster = j.cluster AND r.audit_id = j.audit_id AND r.ts = j.ts
),
described AS (
    SELECT
        * EXCLUDE (object_name, parts, body, metadata),
        parts[1] ->> '$' AS body_kind,
        metadata IS NOT NULL AS has_metadata,
        controller_of(json_object('metadata', metadata)) AS controller,
        coalesce(nullif(object_name, ''), metadata ->> '$.name', (metadata ->> '$.generateName') || '*', '*') AS name,
        metadata ->> '$.labels.pod-template-hash' AS template_hash,
        (metadata ->> '$.deletionTimestamp') IS NOT NULL AS is_being_deleted,
        CASE
            WHEN coalesce(subresource, '') <> '' OR verb NOT IN ('create', 'update', 'patch') THEN NULL
            WHEN len(json_extract(body, '$.spec..image')) > 0 THEN md5(list_sort(json_extract_string(body, '$.spec..image'))::VARCHAR)
            ELSE md5(json_merge_patch(body, '{"metadata": null, "status": null}')::VARCHAR)
        END AS release_of_object,
        CASE WHEN verb IN ('create', 'update', 'patch') AND metadata IS NOT NULL THEN coalesce(metadata ->> '$.labels', '{}') END AS labels,
        coalesce(metadata ->> '$.generateName', '') AS generate_name,
        CASE WHEN metadata IS NOT NULL THEN json_object(
            'labels', metadata -> '$.labels', 'annotations', metadata -> '$.annotations',
            'managedFields', list_transform(
                json_extract(metadata, '$.managedFields[*].manager'), lambda manager: json_object('manager', manager)
            )
        ) END AS marks
    FROM bodies
)
SELECT
    cluster, audit_id, ts, stage_ts, verb,
    user_name, user_groups, user_agent,
    -- A create of a Namespace names none, its other requests name itself; admission sees the latter in all of them.
    CASE WHEN kinds.kind = 'Namespace' AND coalesce(api_group, '') = '' THEN name ELSE namespace END AS namespace,
    api_group,
    coalesce(resource, '') AS plain_resource,
    coalesce(subresource, '') AS subresource,
    resource_label(nullif(api_group, ''), resource, subresource) AS resource,
    kinds.kind, name,
    controller ->> '$.kind' AS owner_kind,
    controller ->> '$.name' AS owner_name,
    template_hash,
    body_kind, has_metadata,
    coalesce(body_kind = kinds.kind, false) AND has_metadata AS is_whole,
    subresource IS NOT DISTINCT FROM 'finalize' OR (verb IN ('update', 'patch') AND is_being_deleted) AS is_finalizing,
    CASE WHEN kinds.kind IS NULL OR is_whole THEN release_of_object END AS release,
    labels, generate_name, marks
FROM described LEFT JOIN kinds USING (api_group, resource)
