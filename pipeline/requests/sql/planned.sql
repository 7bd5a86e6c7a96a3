-- one row per request of a slice of a replay, in the order of the files: sorting bodies takes longer than reading them
-- class: the number of its class of requests
-- is_plain: the write succeeded and its answer may show the object as it was written, with nothing taken out
-- asks: an earlier state of the object may be asked for, by a policy or because the answer does not show the object
-- partition: that of its object, which has a name wherever an earlier state is asked for
-- object_key, sweep_key: its object, and the deletecollections that may meet it, as file_objects.sql of pipeline/requests/kept names them
SELECT
    planned.class,
    coalesce(
        code BETWEEN 200 AND 299 AND level = 'RequestResponse' AND response_object IS NOT NULL AND len(flags) = 0
        AND NOT map_contains(notes, 'dry-run') AND coalesce(status_message, '') = '' AND annotations['authorization.k8s.io/decision'] IS DISTINCT FROM 'forbid'
        -- As the API server writes them; an answer in another order is found to show no object when it is read.
        AND NOT starts_with(response_object, '{"kind":"Table",') AND NOT starts_with(response_object, '{"kind":"Status",')
        AND NOT starts_with(response_object, '{"kind":"PartialObjectMetadata",')
        -- The store prunes fields that a webhook added to a custom resource, whose group has a dot.
        AND CASE WHEN contains(events.api_group, '.')
            THEN len(list_filter(map_keys(annotations), lambda key: starts_with(key, 'patch.webhook.'))) = 0 ELSE true END,
        false
    ) AS is_plain,
    coalesce(
        events.verb IN ('update', 'patch', 'delete')
        AND (planned.reads_old_object OR NOT is_plain OR contains(request_uri, 'dryRun=')),
        false
    ) AS asks,
    (hash(events.cluster, events.resource, object_place(events.api_group, events.resource, namespace), coalesce(events.name, '')) % $partitions)::INTEGER AS partition,
    hash(events.cluster, events.resource, object_place(events.api_group, events.resource, namespace), object_name(events.name, events.verb, response_object)) AS object_key,
    hash(events.cluster, events.resource, object_place(events.api_group, events.resource, namespace), '/') AS sweep_key,
    events.cluster, audit_id, stage, level, coalesce(ts, stage_ts) AS ts, stage_ts, events.verb, request_uri, user_agent,
    user_name, user_uid, user_groups, user_extra, impersonated_user,
    events.api_group, events.api_version, events.resource, events.subresource, namespace, events.name,
    code, status_reason, status_message, annotations, notes, request_object, response_object, flags, review
FROM events JOIN planned_classes AS planned
    ON planned.cluster = events.cluster AND planned.api_group = events.api_group
    AND planned.api_version = coalesce(events.api_version, '')
    AND planned.resource = events.resource AND planned.subresource = coalesce(events.subresource, '') AND planned.verb = events.verb
WHERE stage = 'ResponseComplete' AND ($since IS NULL OR events.ts >= $since) AND ($until IS NULL OR events.ts < $until)
    AND CASE CASE WHEN is_plain THEN planned.reads_plain ELSE planned.reads_others END
        WHEN 'all' THEN true
        WHEN 'touched' THEN object_key IN (SELECT object FROM touched) OR sweep_key IN (SELECT object FROM touched)
        ELSE false
    END
