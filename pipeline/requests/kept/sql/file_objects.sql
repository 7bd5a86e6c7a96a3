-- one row per file of events and object that requests in it name, over events that `split_events` shows; a deletecollection has the
-- name `/`, which no object has
-- object: as `object_key` of planned.sql names it
-- digest: of the events of the object in this file, as `content` of file_facts.sql, so that it adds up over files
--
-- Events of Kubernetes are left out: they are most of the objects, and requests for them are not kept (pipeline/requests/kept/records.py).
WITH split AS (
    SELECT
        split_part(cluster, '/', 1)::INTEGER AS file, cluster[strpos(cluster, '/') + 1:] AS its_cluster,
        hash(audit_id, stage, stage_ts, code, flags) AS content, level, api_group, resource, subresource, namespace, name, verb, response_object
    FROM events
    WHERE stage = 'ResponseComplete' AND resource <> 'events'
),
-- Only the answer to an unnamed create tells the name. Two scans, so that most bodies are not read.
named AS (
    SELECT file, its_cluster, api_group, resource, namespace, CASE verb WHEN 'deletecollection' THEN '/' ELSE coalesce(name, '') END AS its_name, content
    FROM split
    WHERE (name IS NOT NULL OR verb <> 'create')
        -- A read with its answer shows the object.
        AND (verb NOT IN ('get', 'list', 'watch') OR subresource IS NOT NULL OR (verb = 'get' AND level = 'RequestResponse'))
    UNION ALL
    SELECT file, its_cluster, api_group, resource, namespace, object_name(NULL, 'create', response_object), content
    FROM split
    WHERE name IS NULL AND verb = 'create'
    UNION ALL
    SELECT file, its_cluster, api_group, resource, coalesce(item.namespace, ''), item.name, content
    FROM (
        SELECT *, unnest(from_json(json_extract(response_object, '$.items[*].metadata'), '[{"name":"VARCHAR","namespace":"VARCHAR"}]')) AS item
        FROM split
        WHERE verb = 'list' AND level = 'RequestResponse' AND subresource IS NULL AND json_valid(response_object)
    )
    WHERE item.name IS NOT NULL
)
SELECT file, hash(its_cluster, resource, object_place(api_group, resource, namespace), its_name) AS object, bit_xor(content) AS digest
FROM named
GROUP BY ALL
ORDER BY ALL
