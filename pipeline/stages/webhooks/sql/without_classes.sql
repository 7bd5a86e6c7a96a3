-- one row per (cluster, verb, operation, resource, whether namespaced, whether refused) of the requests with objects that the webhook changed
SELECT
    reach.cluster, verb, reach.operation, coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version,
    reach.resource, coalesce(subresource, '') AS subresource, coalesce(namespace, '') <> '' AS is_namespaced,
    verb IN ('update', 'patch') AND code >= 400 AS refused, count(*) AS requests
FROM reach
WHERE stage = 'ResponseComplete'
    AND (cluster, audit_id, ts) IN (SELECT (cluster, audit_id, ts) FROM webhooks_without WHERE said = 'changed')
GROUP BY ALL
ORDER BY ALL
