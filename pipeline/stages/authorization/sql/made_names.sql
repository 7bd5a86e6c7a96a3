-- one row per recorded object of some resources under some names: (api_group, resource, namespace, name), with what shows how it was
-- named; generate_name, owner_kind, owner_name and template_hash are null where no recorded body has them
-- is_created: whether the log has its create. is_nameless: whether the client left the name to the server
WITH bodies AS (
    SELECT
        coalesce(api_group, '') AS api_group, resource, coalesce(namespace, '') AS namespace,
        object_name(name, verb, response_object) AS name,
        verb = 'create' AS is_create,
        verb = 'create' AND name IS NULL AS is_nameless,
        recorded_object(response_object, request_object) AS body
    FROM events
    WHERE stage = 'ResponseComplete' AND cluster = $cluster AND code BETWEEN 200 AND 299 AND coalesce(subresource, '') = ''
        AND concat(api_group, '/', resource) IN (SELECT unnest($resources::VARCHAR[]))
        AND ($until IS NULL OR ts < $until)
)
SELECT
    api_group, resource, namespace, name,
    max(body ->> '$.metadata.generateName') AS generate_name,
    max(controller_of(body) ->> '$.kind') AS owner_kind,
    max(controller_of(body) ->> '$.name') AS owner_name,
    max(body ->> '$.metadata.labels.pod-template-hash') AS template_hash,
    bool_or(is_create) AS is_created,
    bool_or(is_nameless) AS is_nameless
FROM bodies
WHERE name IN (SELECT unnest($names::VARCHAR[]))
GROUP BY ALL
ORDER BY ALL
