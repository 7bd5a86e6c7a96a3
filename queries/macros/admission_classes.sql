-- one row per class of requests that the rules of policies cannot tell apart, by whether policies ran and by `is_final`
-- since: earliest time of a request, or null
-- until: time before which requests count, or null
--
-- Columns: cluster, api_group, api_version, resource, subresource (empty without one), verb, operation, is_namespaced, refused,
-- ran, ran_reason, is_final, requests. `is_final`: the request has its final stage, and did not panic.
-- A plan asks policies about these few rows before it reads anything else.
CREATE MACRO admission_classes(since, until) AS TABLE
SELECT
    cluster, api_group, api_version, resource, coalesce(subresource, '') AS subresource, verb, operation,
    -- The namespace of a request for a Namespace is the object's own name.
    coalesce(namespace, CASE WHEN resource = 'namespaces' AND api_group = '' THEN name END, '') <> '' AS is_namespaced,
    coalesce(code >= 400, false) AS refused,
    ran, ran_reason,
    stage = 'ResponseComplete' AS is_final,
    count(*) AS requests
FROM admission_writes
WHERE (since IS NULL OR ts >= since) AND (until IS NULL OR ts < until)
GROUP BY ALL
ORDER BY ALL
