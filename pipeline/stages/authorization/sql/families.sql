-- one row per family of created objects: (api_group, resource, stem), with the number of distinct names
-- stem: the name with one mark for each run of digits; empty for creates whose names the server made and no body shows
-- names: distinct names; of the empty stem the number of creates
SELECT
    api_group, resource, regexp_replace(name, '[0-9]+', '#', 'g') AS stem,
    CASE WHEN min(name) = '' THEN count(*) ELSE count(DISTINCT name) END AS names
FROM (
    SELECT coalesce(api_group, '') AS api_group, resource, object_name(name, verb, response_object) AS name
    FROM events
    WHERE stage = 'ResponseComplete' AND cluster = $cluster AND verb = 'create' AND code BETWEEN 200 AND 299
        AND coalesce(subresource, '') = '' AND concat(api_group, '/', resource) IN (SELECT unnest($resources::VARCHAR[]))
        AND ($until IS NULL OR ts < $until)
)
GROUP BY api_group, resource, stem
ORDER BY ALL
