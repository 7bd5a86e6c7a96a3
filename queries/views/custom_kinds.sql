-- one row per custom resource whose CustomResourceDefinition the log or a snapshot shows: (cluster, api_group, resource)
-- kind: of its objects, by the latest definition
WITH definitions AS (
    SELECT cluster, ts, response_object AS definition
    FROM events
    WHERE api_group = 'apiextensions.k8s.io' AND resource = 'customresourcedefinitions' AND code < 300
        AND (response_object ->> '$.kind') = 'CustomResourceDefinition'
    UNION ALL
    SELECT cluster, observed_ts, object FROM objects WHERE kind = 'CustomResourceDefinition'
)
SELECT
    cluster,
    definition ->> '$.spec.group' AS api_group,
    definition ->> '$.spec.names.plural' AS resource,
    arg_max(definition ->> '$.spec.names.kind', ts) AS kind
FROM definitions
GROUP BY ALL
HAVING kind IS NOT NULL
