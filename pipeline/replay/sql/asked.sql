-- one row per object of a part whose earlier state is asked for: by a policy that reads oldObject, or by a request whose answer does
-- not show the object
CREATE OR REPLACE TEMP TABLE asked AS
SELECT DISTINCT events.resource, coalesce(namespace, '') AS place, events.name
FROM events JOIN planned_classes AS planned
    ON planned.cluster = events.cluster AND planned.api_group = events.api_group AND planned.api_version = events.api_version
    AND planned.resource = events.resource AND planned.subresource = coalesce(events.subresource, '') AND planned.verb = events.verb
WHERE stage = 'ResponseComplete' AND events.cluster = $cluster
    AND events.resource BETWEEN $first_resource AND $last_resource
    AND (events.resource > $first_resource OR coalesce(namespace, '') >= $first_namespace)
    AND (events.resource < $last_resource OR coalesce(namespace, '') <= $last_namespace)
    AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
    AND events.verb IN ('update', 'patch', 'delete')
    AND (
        planned.reads_old_object OR level <> 'RequestResponse' OR contains(request_uri, 'dryRun=')
        -- Other refusals came before policies were asked, or nobody can tell.
        OR code IN (403, 413, 422) OR code >= 500
    )
    AND ($after_name IS NULL OR events.name > $after_name) AND ($last_name IS NULL OR events.name <= $last_name)
