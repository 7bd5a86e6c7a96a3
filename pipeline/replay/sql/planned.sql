-- one row per request of a part of a replay, in the order of the files: sorting bodies takes longer than reading them
-- class: the number of its class of requests
-- is_plain: the write succeeded and its answer may show the object as it was written, with nothing taken out
-- asks: an earlier state of the object may be asked for, by a policy or because the answer does not show the object
SELECT
    planned.class,
    coalesce(
        code BETWEEN 200 AND 299 AND level = 'RequestResponse' AND response_object IS NOT NULL AND len(flags) = 0
        AND coalesce(status_message, '') = '' AND annotations['authorization.k8s.io/decision'] IS DISTINCT FROM 'forbid',
        false
    ) AS is_plain,
    coalesce(
        events.verb IN ('update', 'patch', 'delete') AND (
            planned.reads_old_object OR level <> 'RequestResponse' OR contains(request_uri, 'dryRun=')
            -- A conflict asks which version was stored; other refusals came before policies were asked, or nobody can tell.
            OR code IN (403, 409, 413, 422) OR code >= 500
        ),
        false
    ) AS asks,
    events.cluster, audit_id, stage, level, coalesce(ts, stage_ts) AS ts, stage_ts, events.verb, request_uri, user_agent,
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
    AND ($since IS NULL OR events.ts >= $since) AND ($until IS NULL OR events.ts < $until)
    AND ($after_name IS NULL OR object_name(events.name, events.verb, response_object) > $after_name)
    AND ($last_name IS NULL OR object_name(events.name, events.verb, response_object) <= $last_name)
