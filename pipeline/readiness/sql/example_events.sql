-- one row per event that ends a request in `examples`, or is an earlier write of the object of one
-- is_example: which of the two
WITH wanted AS (
    SELECT
        e.cluster, e.audit_id, e.ts, e.api_group, e.resource, coalesce(e.namespace, '') AS namespace,
        object_name(e.name, e.verb, e.response_object) AS name
    FROM events AS e
    SEMI JOIN examples AS x ON x.cluster = e.cluster AND x.audit_id = e.audit_id AND x.ts = e.ts
    WHERE e.stage = 'ResponseComplete'
)
SELECT
    e.cluster, e.audit_id, e.stage, e.level, e.ts, e.stage_ts, e.verb, e.request_uri, e.user_agent,
    e.user_name, e.user_uid, e.user_groups, e.user_extra, e.impersonated_user,
    e.api_group, e.api_version, e.resource, e.subresource, e.namespace, e.name,
    e.code, e.status_reason, e.status_message, e.annotations, e.request_object, e.response_object, e.flags,
    EXISTS (FROM wanted AS w WHERE w.cluster = e.cluster AND w.audit_id = e.audit_id AND w.ts = e.ts) AS is_example
FROM events AS e
WHERE e.stage = 'ResponseComplete' AND e.verb IN ('create', 'update', 'patch', 'delete')
    AND EXISTS (
        FROM wanted AS w
        WHERE w.cluster = e.cluster AND w.api_group = e.api_group AND w.resource = e.resource
            AND w.namespace = coalesce(e.namespace, '') AND e.ts <= w.ts
            AND (w.audit_id = e.audit_id OR (w.name <> '' AND e.code < 300 AND w.name = object_name(e.name, e.verb, e.response_object)))
    )
ORDER BY e.ts, e.stage_ts, e.audit_id
