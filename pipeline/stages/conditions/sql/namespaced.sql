-- one row per resource of recorded requests: whether some request names a namespace, and a kind that its objects have
SELECT
    cluster, api_group, resource, bool_or(namespace <> '') AS is_namespaced, any_value(kind) AS kind
FROM (
    SELECT cluster, api_group, resource, namespace, NULL AS kind FROM conditions_asked WHERE resource <> ''
    UNION ALL
    SELECT cluster, api_group, resource, namespace, kind FROM object_versions
)
GROUP BY ALL
