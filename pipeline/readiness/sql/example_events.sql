-- one row per event that ends a request in `examples`, or is one of the last hundred writes of its object before it
-- is_example: which of the two
--
-- The query first finds the keys of these events, because joins must not carry whole bodies. It reads a body for this only if the
-- request does not name its object.
WITH finished AS NOT MATERIALIZED (
    FROM events WHERE stage = 'ResponseComplete'
),
shown AS MATERIALIZED (
    SELECT e.cluster, e.audit_id, e.ts, e.stage_ts, e.verb, e.api_group, e.resource, object_place(e.api_group, e.resource, e.namespace) AS namespace, e.name
    FROM finished AS e
    SEMI JOIN examples AS x ON x.cluster = e.cluster AND x.audit_id = e.audit_id AND x.ts = e.ts
),
-- The writes whose bodies alone name their objects, of the resources of examples.
unnamed AS MATERIALIZED (
    SELECT cluster, audit_id, ts, stage_ts, api_group, resource, namespace, code, object_name(name, verb, response_object) AS name
    FROM finished
    WHERE name IS NULL AND list_position(['create', 'update', 'patch', 'delete'], verb) > 0
        AND list_position((SELECT list(DISTINCT resource) FROM shown), resource) > 0
),
wanted AS MATERIALIZED (
    SELECT
        s.* EXCLUDE (name),
        -- A request that is no write has no earlier writes of interest, so it needs no name.
        coalesce(s.name, u.name, '') AS name
    FROM shown AS s
    LEFT JOIN unnamed AS u ON u.cluster = s.cluster AND u.audit_id = s.audit_id AND u.ts = s.ts AND u.stage_ts = s.stage_ts
),
written AS NOT MATERIALIZED (
    SELECT cluster, audit_id, ts, stage_ts, api_group, resource, namespace, code, name
    FROM finished
    WHERE name IS NOT NULL AND list_position(['create', 'update', 'patch', 'delete'], verb) > 0
    UNION ALL
    FROM unnamed
),
-- The last writes of an object say how it was just before. A hundred of them are enough, even if the log covers years.
earlier AS (
    SELECT e.cluster, e.audit_id, e.stage_ts
    FROM written AS e
    JOIN wanted AS w ON w.cluster = e.cluster AND w.api_group = e.api_group AND w.resource = e.resource
        AND w.namespace = object_place(e.api_group, e.resource, e.namespace) AND w.name = e.name AND e.ts <= w.ts
    WHERE w.name <> '' AND e.code < 300
    QUALIFY row_number() OVER (PARTITION BY w.cluster, w.audit_id, w.ts ORDER BY e.stage_ts DESC, e.audit_id) <= 100
),
meant AS MATERIALIZED (
    FROM earlier
    UNION
    -- An auditID may be repeated by its client, for the same resource too.
    SELECT DISTINCT e.cluster, e.audit_id, e.stage_ts
    FROM written AS e
    JOIN wanted AS w ON w.cluster = e.cluster AND w.api_group = e.api_group AND w.resource = e.resource
        AND w.namespace = object_place(e.api_group, e.resource, e.namespace) AND w.audit_id = e.audit_id AND e.ts <= w.ts
)
SELECT
    e.cluster, e.audit_id, e.stage, e.level, e.ts, e.stage_ts, e.verb, e.request_uri, e.user_agent,
    e.user_name, e.user_uid, e.user_groups, e.user_extra, e.impersonated_user,
    e.api_group, e.api_version, e.resource, e.subresource, e.namespace, e.name,
    e.code, e.status_reason, e.status_message, e.annotations, e.notes, e.request_object, e.response_object, e.flags, e.review,
    (e.cluster, e.audit_id, e.ts) IN (SELECT cluster, audit_id, ts FROM shown) AS is_example
FROM events AS e
-- For a plain IN or a SEMI JOIN, DuckDB may hash the larger side, which is every event with its bodies.
WHERE e.stage = 'ResponseComplete' AND list_position(['create', 'update', 'patch', 'delete'], e.verb) > 0
    AND coalesce((e.cluster, e.audit_id, e.stage_ts) IN (FROM meant), false)
ORDER BY e.ts, e.stage_ts, e.audit_id
