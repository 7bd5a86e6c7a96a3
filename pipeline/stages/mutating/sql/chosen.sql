-- one row per request of a stretch of time and of the classes in `mutating_classes`: (cluster, audit_id, ts, stage_ts)
SELECT reach.cluster, audit_id, ts, stage_ts, 0 AS number
FROM reach JOIN mutating_classes AS class
    ON reach.cluster = class.cluster AND reach.verb = class.verb AND reach.operation = class.operation
    AND reach.resource = class.resource AND coalesce(reach.api_group, '') = class.api_group
    AND coalesce(reach.api_version, '') = class.api_version AND coalesce(reach.subresource, '') = class.subresource
    AND (coalesce(reach.namespace, '') <> '') = class.is_namespaced
    AND (reach.verb IN ('update', 'patch') AND reach.code >= 400) = class.refused
WHERE way <> 'empty' AND stage = 'ResponseComplete'
    AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
