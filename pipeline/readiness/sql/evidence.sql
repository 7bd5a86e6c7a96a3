-- one row per resource that policies may match: its writes, and how many of them have a body to judge
--
-- Only writes that policies saw or may have seen count. A write that was refused before policies says nothing about them, so a
-- replay and the page about evidence leave it out.
SELECT
    concat_ws('/', concat_ws('.', resource, nullif(api_group, '')), nullif(subresource, '')) AS resource,
    count(*) AS requests,
    count(*) FILTER (request_object IS NOT NULL OR response_object IS NOT NULL) AS with_bodies,
    count(*) FILTER (list_contains(flags, 'truncated')) AS truncated
FROM admission_writes
WHERE ran <> 'no'
GROUP BY ALL
ORDER BY requests DESC, resource
