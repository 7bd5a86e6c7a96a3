-- one row per pod that the log or a snapshot shows on a node: (cluster, uid), with its place and its latest body
-- since: when the log first shows it there; until: when somebody first asked to delete it, or null
WITH shown AS (
    SELECT
        cluster, coalesce(namespace, '') AS namespace, object_name(name, verb, response_object) AS name,
        response_object ->> '$.metadata.uid' AS uid, stage_ts, response_object ->> '$.spec.nodeName' AS node, response_object AS pod
    FROM events
    WHERE coalesce(api_group, '') = '' AND resource = 'pods' AND coalesce(subresource, '') IN ('', 'status')
        AND stage = 'ResponseComplete' AND verb IN ('create', 'get', 'update', 'patch') AND code BETWEEN 200 AND 299
        AND (response_object ->> '$.kind') = 'Pod'
    UNION ALL
    SELECT cluster, coalesce(namespace, ''), name, uid, observed_ts, object ->> '$.spec.nodeName', object FROM objects WHERE kind = 'Pod'
),
placed AS (
    SELECT cluster, uid, stage_ts, node FROM shown WHERE node <> ''
    UNION ALL
    SELECT cluster, coalesce(obj_uid, request_object ->> '$.metadata.uid'), stage_ts, request_object ->> '$.target.name'
    FROM events
    WHERE coalesce(api_group, '') = '' AND resource = 'pods' AND subresource = 'binding' AND verb = 'create'
        AND stage = 'ResponseComplete' AND code BETWEEN 200 AND 299 AND (request_object ->> '$.target.name') <> ''
),
pods AS (
    SELECT cluster, uid, any_value(namespace) AS namespace, any_value(name) AS name, arg_max(pod, stage_ts) AS pod
    FROM shown
    GROUP BY cluster, uid
),
found AS (
    SELECT pods.*, min(placed.stage_ts) AS since, arg_min(placed.node, placed.stage_ts) AS node
    FROM pods JOIN placed USING (cluster, uid)
    GROUP BY ALL
),
deleted AS (
    SELECT cluster, coalesce(namespace, '') AS namespace, CASE WHEN verb = 'delete' THEN name END AS name, ts
    FROM events
    WHERE coalesce(api_group, '') = '' AND resource = 'pods' AND verb IN ('delete', 'deletecollection') AND code BETWEEN 200 AND 299
    UNION ALL
    SELECT cluster, coalesce(namespace, ''), name, ts
    FROM events
    WHERE coalesce(api_group, '') = '' AND resource = 'pods' AND subresource = 'eviction' AND code BETWEEN 200 AND 299
)
SELECT found.*, min(deleted.ts) AS until
FROM found LEFT JOIN deleted
    ON deleted.cluster = found.cluster AND deleted.namespace IN ('', found.namespace) AND deleted.ts >= found.since
    AND coalesce(deleted.name, found.name) = found.name
GROUP BY ALL
