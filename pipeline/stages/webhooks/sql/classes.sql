-- one row per (cluster, operation, resource, whether refused, whether namespaced, verb) in `webhooks_asked`
SELECT
    cluster, verb, operation, api_group, api_version, resource, subresource, namespace <> '' AS is_namespaced, refused,
    count(*) AS requests
FROM webhooks_asked
GROUP BY ALL
ORDER BY ALL
