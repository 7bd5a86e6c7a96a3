-- one row per request of share $share of $shares (of objects) and of the classes in `mutating_classes`, with its bodies, in the order of arrival
-- asks: an earlier state of its object may be asked for
SELECT
    coalesce(events.verb IN ('update', 'patch'), false) AS asks, 0::INTEGER AS partition,
    events.cluster, events.audit_id, events.stage, level, events.ts, events.stage_ts, events.verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    events.api_group, events.api_version, events.resource, events.subresource, events.namespace, events.name,
    events.code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events JOIN (
    SELECT reach.cluster, audit_id, ts, stage_ts
    FROM reach JOIN mutating_classes AS class
        ON reach.cluster = class.cluster AND reach.verb = class.verb AND reach.operation = class.operation
        AND reach.resource = class.resource AND coalesce(reach.api_group, '') = class.api_group
        AND coalesce(reach.api_version, '') = class.api_version AND coalesce(reach.subresource, '') = class.subresource
        AND (coalesce(reach.namespace, '') <> '') = class.is_namespaced
        AND (reach.verb IN ('update', 'patch') AND reach.code >= 400) = class.refused
    WHERE way <> 'empty' AND stage = 'ResponseComplete'
        AND ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
) AS chosen USING (cluster, audit_id, ts, stage_ts)
WHERE events.stage = 'ResponseComplete'
    AND ($shares = 1 OR hash(events.cluster, events.resource, events.namespace, events.name) % $shares = $share)
ORDER BY events.ts, events.stage_ts, events.audit_id
