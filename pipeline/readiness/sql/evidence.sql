-- one row per resource that policies may match: the writes that admission sees, and how many came with a body to judge
SELECT
    concat_ws('/', concat_ws('.', resource, nullif(api_group, '')), nullif(subresource, '')) AS resource,
    count(*) AS requests,
    count(*) FILTER (request_object IS NOT NULL OR response_object IS NOT NULL) AS with_bodies,
    count(*) FILTER (list_contains(flags, 'truncated')) AS truncated
FROM admission_writes
GROUP BY ALL
ORDER BY requests DESC, resource
