-- one row per resource that policies may match: the writes that policies saw or may have seen, and how many came with a body to judge
-- A write that was refused before policies run tells nothing of them: a replay leaves it out, and the page about evidence too.
SELECT
    concat_ws('/', concat_ws('.', resource, nullif(api_group, '')), nullif(subresource, '')) AS resource,
    count(*) AS requests,
    count(*) FILTER (request_object IS NOT NULL OR response_object IS NOT NULL) AS with_bodies,
    count(*) FILTER (list_contains(flags, 'truncated')) AS truncated
FROM admission_writes
WHERE ran <> 'no'
GROUP BY ALL
ORDER BY requests DESC, resource
