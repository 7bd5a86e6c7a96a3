-- one row per (cluster, resource, subresource, verb, whether refused, whether namespaced) in `schema_asked`
SELECT
    cluster, verb, CASE verb WHEN 'create' THEN 'CREATE' WHEN 'delete' THEN 'DELETE' ELSE 'UPDATE' END AS operation,
    api_group, api_version, resource, subresource, namespace <> '' AS is_namespaced, refused,
    count(DISTINCT (cluster, audit_id, ts)) AS requests
FROM schema_asked
GROUP BY ALL
ORDER BY ALL
