-- one row per (cluster, operation, resource, whether refused, whether namespaced, verb) of the requests that admission is for:
-- classes.sql without the table `webhooks_asked`, for a plan, which needs no request
SELECT
    cluster, verb, operation, coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version,
    resource, coalesce(subresource, '') AS subresource, coalesce(namespace, '') <> '' AS is_namespaced,
    verb IN ('update', 'patch', 'delete') AND coalesce(code, 0) >= 400 AS refused,
    count(*) AS requests
FROM reach
WHERE operation IS NOT NULL AND way <> 'empty' AND stage = 'ResponseComplete'
    AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
GROUP BY ALL
ORDER BY ALL
