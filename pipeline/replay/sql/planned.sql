-- one row per request of a part of a replay, in the order of arrival
SELECT
    events.cluster, audit_id, stage, level, ts, stage_ts, events.verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    events.api_group, events.api_version, events.resource, events.subresource, namespace, events.name,
    code, status_reason, status_message, annotations, request_object, response_object, flags
FROM events JOIN planned_classes AS planned
    ON planned.cluster = events.cluster AND planned.api_group = events.api_group AND planned.api_version = events.api_version
    AND planned.resource = events.resource AND planned.subresource = coalesce(events.subresource, '') AND planned.verb = events.verb
WHERE stage = 'ResponseComplete' AND events.cluster = $cluster
    AND events.resource BETWEEN $first_resource AND $last_resource
    AND (events.resource > $first_resource OR coalesce(namespace, '') >= $first_namespace)
    AND (events.resource < $last_resource OR coalesce(namespace, '') <= $last_namespace)
    AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
    AND ($after_name IS NULL OR object_name(events.name, events.verb, response_object) > $after_name)
    AND ($last_name IS NULL OR object_name(events.name, events.verb, response_object) <= $last_name)
ORDER BY ts, stage_ts, audit_id
