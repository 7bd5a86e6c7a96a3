-- one row per (cluster, verb, operation, resource, whether namespaced, whether refused) of the requests of a window that could
-- come to mutating policies
SELECT
    cluster, verb, operation, coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version, resource,
    coalesce(subresource, '') AS subresource, coalesce(namespace, '') <> '' AS is_namespaced,
    verb IN ('update', 'patch') AND code >= 400 AS refused, count(*) AS requests
FROM reach
WHERE operation IN ('CREATE', 'UPDATE', 'CONNECT') AND way <> 'empty' AND stage = 'ResponseComplete'
    AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
GROUP BY ALL
ORDER BY ALL
