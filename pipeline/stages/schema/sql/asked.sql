-- one row per request of a window that is on a kind of a given definition: (cluster, audit_id, ts, stage_ts), with its class
-- places: RESOURCE.GROUP of the definitions; served: RESOURCE.GROUP/VERSION of the versions that they serve
-- Reads and deletes matter only where their version is not served any more.
CREATE OR REPLACE TEMP TABLE schema_asked AS
SELECT DISTINCT
    cluster, audit_id, ts, stage_ts, verb, CASE verb WHEN 'create' THEN 'CREATE' WHEN 'delete' THEN 'DELETE' ELSE 'UPDATE' END AS operation,
    api_group, api_version, resource, subresource, namespace, code, 0 AS number
FROM events
WHERE stage = 'ResponseComplete'
    AND list_contains($places, resource || '.' || api_group)
    AND coalesce(subresource, '') IN ('', 'status', 'scale')
    AND (verb IN ('create', 'update', 'patch')
        OR NOT list_contains($served, resource || '.' || api_group || '/' || coalesce(api_version, '')))
    AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
