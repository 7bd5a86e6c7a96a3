-- one row per kind of request in `judged_requests`: alike in all that an exemption can tell apart
-- outcome: as in `outcomes`: deny, unknown or admit
-- namespace: as admission sees it: a request for a Namespace carries its own name
-- name: null where the request has none (deletecollection), or it was not recorded
-- labels: JSON of the object's labels; null where a selector would look at something that is not in this request
-- is_configuration: denied by an error of the configuration, before match conditions are asked
-- is_behind: see exposed_behind; true throughout in a plain run
WITH described AS (
    SELECT
        cluster, audit_id, ts, user_name, user_groups, api_group, resource,
        coalesce(subresource, '') AS subresource,
        coalesce(namespace, CASE WHEN resource = 'namespaces' AND api_group = '' THEN name END, '') AS namespace,
        -- A generated name stands in the response, or in the words of the refusal.
        CASE
            WHEN code >= 400 THEN coalesce(name, nullif(regexp_extract(status_message, '^\S+ "([^"]+)" is forbidden:', 1), ''))
            ELSE nullif(object_name(name, verb, response_object), '')
        END AS name,
        CASE WHEN verb IN ('create', 'update', 'patch') THEN recorded_object(response_object, request_object) END AS object,
        workload(resource, name, recorded_object(response_object, request_object)) AS unit
    FROM requests
    SEMI JOIN judged_requests USING (cluster, audit_id, ts)
    QUALIFY row_number() OVER (PARTITION BY cluster, audit_id, ts ORDER BY stage_ts) = 1
)
SELECT
    policy, binding, outcome, is_configuration, is_behind, cluster,
    coalesce(user_name, '') AS user_name,
    coalesce(user_groups, []) AS user_groups,
    coalesce(api_group, '') AS api_group,
    coalesce(resource, '') AS resource,
    coalesce(subresource, '') AS subresource,
    coalesce(namespace, '') AS namespace,
    name,
    coalesce(unit, '') AS unit,
    CASE WHEN (object -> '$.metadata') IS NOT NULL THEN coalesce(object ->> '$.metadata.labels', '{}') END AS labels,
    count(*) AS requests
FROM judged_requests LEFT JOIN described USING (cluster, audit_id, ts)
GROUP BY ALL
ORDER BY ALL
