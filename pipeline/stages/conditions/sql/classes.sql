-- one row per (cluster, operation, resource, whether refused, whether namespaced, verb) of the writes in `conditions_written`
SELECT
    cluster, verb, operation, api_group, api_version, resource, subresource, namespace <> '' AS is_namespaced, refused,
    count(*) AS requests
FROM conditions_asked JOIN conditions_questions USING (question) JOIN conditions_written USING (number)
GROUP BY ALL
ORDER BY ALL
