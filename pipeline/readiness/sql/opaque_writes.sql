-- one row per recorded write of an object in `existing` whose last version no answer shows whole
SELECT
    e.cluster, e.audit_id, e.stage, e.level, e.ts, e.stage_ts, e.verb, e.request_uri, e.user_agent,
    e.user_name, e.user_uid, e.user_groups, e.user_extra, e.impersonated_user,
    e.api_group, e.api_version, e.resource, e.subresource, e.namespace, e.name,
    e.code, e.status_reason, e.status_message, e.annotations, e.notes, e.request_object, e.response_object, e.flags, e.review
FROM events AS e
SEMI JOIN (FROM existing WHERE object IS NULL) AS x
    ON x.cluster = e.cluster AND x.api_group = e.api_group AND x.resource = e.resource
    AND x.name = object_name(e.name, e.verb, e.response_object)
    AND x.namespace = object_place(e.api_group, e.resource, e.namespace)
WHERE e.stage = 'ResponseComplete' AND e.code < 300 AND e.verb IN ('create', 'update', 'patch', 'delete')
    AND ($until IS NULL OR e.ts < $until)
ORDER BY e.ts, e.stage_ts, e.audit_id
