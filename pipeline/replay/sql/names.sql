-- one row per part of one large (cluster, resource, namespace): the last name in it, parts of about equal numbers of requests
WITH names AS (
    SELECT object_name(events.name, events.verb, response_object) AS name, count(*) AS requests
    FROM events JOIN planned_classes AS planned
        ON planned.cluster = events.cluster AND planned.api_group = events.api_group AND planned.api_version = events.api_version
        AND planned.resource = events.resource AND planned.subresource = coalesce(events.subresource, '') AND planned.verb = events.verb
    WHERE events.cluster = $cluster AND events.resource = $resource AND coalesce(namespace, '') = $namespace
        AND stage = 'ResponseComplete' AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
    GROUP BY ALL
),
parts AS (
    SELECT name, requests, (sum(requests) OVER (ORDER BY name) - 1) // $part AS part
    FROM names
)
SELECT max(name) AS last_name, sum(requests)::BIGINT AS requests
FROM parts
GROUP BY part
ORDER BY part
