-- one row per class of the requests in `found` that arrived in a window; see RequestClass
SELECT
    cluster, verb, operation, coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version,
    resource, coalesce(subresource, '') AS subresource, coalesce(namespace, '') <> '' AS is_namespaced,
    coalesce(code, 0) >= 400 AS refused, count(*) AS requests
FROM found
WHERE ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
GROUP BY ALL
ORDER BY ALL
