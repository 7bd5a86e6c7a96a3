-- one row per (cluster, resource, namespace) with requests of the planned classes, in the order in which they are replayed
SELECT events.cluster, events.resource, coalesce(events.namespace, '') AS namespace, count(*) AS requests
FROM events JOIN planned_classes AS planned
    ON planned.cluster = events.cluster AND planned.api_group = events.api_group AND planned.api_version = events.api_version
    AND planned.resource = events.resource AND planned.subresource = coalesce(events.subresource, '') AND planned.verb = events.verb
WHERE stage = 'ResponseComplete' AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
GROUP BY ALL
ORDER BY ALL
