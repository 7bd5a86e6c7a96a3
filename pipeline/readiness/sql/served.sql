-- one row per (cluster, api_group, api_version, resource, kind) with an object that was written or listed
WITH listed AS (
    SELECT DISTINCT
        cluster,
        CASE WHEN contains(api_version, '/') THEN split_part(api_version, '/', 1) ELSE '' END AS api_group,
        split_part(api_version, '/', -1) AS api_version,
        kind
    FROM objects
    WHERE $until IS NULL OR observed_ts < $until
),
-- A snapshot names only kinds. The resource of a custom kind comes from its definition, or from any write.
defined AS (
    SELECT DISTINCT
        object ->> '$.spec.group' AS api_group, object ->> '$.spec.names.kind' AS kind, object ->> '$.spec.names.plural' AS resource
    FROM objects WHERE kind = 'CustomResourceDefinition'
),
written AS (
    SELECT DISTINCT cluster, api_group, api_version, resource
    FROM events
    WHERE stage = 'ResponseComplete' AND verb IN ('create', 'update', 'patch') AND code < 300 AND coalesce(subresource, '') = ''
        AND resource IS NOT NULL AND ($until IS NULL OR ts < $until)
)
SELECT cluster, listed.api_group, listed.api_version, coalesce(kinds.resource, defined.resource) AS resource, listed.kind
FROM listed
LEFT JOIN kinds ON kinds.api_group = listed.api_group AND kinds.kind = listed.kind
LEFT JOIN defined ON defined.api_group = listed.api_group AND defined.kind = listed.kind
WHERE coalesce(kinds.resource, defined.resource) IS NOT NULL
UNION
SELECT cluster, written.api_group, written.api_version, written.resource, coalesce(kinds.kind, defined.kind, '')
FROM written
LEFT JOIN kinds USING (api_group, resource)
LEFT JOIN defined USING (api_group, resource)
ORDER BY ALL
