-- one row per cluster, namespace that no request can delete, and uid of it that was seen: (cluster, namespace, uid)
-- namespace: kube-system, default or kube-public
-- uid: a second one under one name of a cluster is a second cluster
-- first_ts: when it was first seen
-- last_ts: when it was last seen
-- seen: how often
--
-- An API server refuses to delete these namespaces (kubernetes plugin/pkg/admission/namespace/lifecycle), so their uids last as long
-- as the cluster. KEP-2149 recommends that of kube-system as a cluster's name. Answers and snapshots show it, and the objectRef of an
-- update.
WITH named AS (
    SELECT cluster, name, coalesce(obj_uid, json_extract_string(response_object, '$.metadata.uid')) AS uid, stage_ts AS ts
    FROM events
    WHERE resource = 'namespaces' AND list_position(['kube-system', 'default', 'kube-public'], name) > 0
        AND coalesce(api_group, '') = '' AND stage = 'ResponseComplete' AND code BETWEEN 200 AND 299
),
listed AS (
    SELECT cluster, stage_ts AS ts, unnest(from_json(json_extract(response_object, '$.items[*].metadata'), '[{"name":"VARCHAR","uid":"VARCHAR"}]')) AS item
    FROM events
    WHERE resource = 'namespaces' AND verb = 'list' AND coalesce(api_group, '') = '' AND stage = 'ResponseComplete'
        AND code = 200 AND response_object IS NOT NULL
),
found AS (
    FROM named
    UNION ALL
    SELECT cluster, item.name, item.uid, ts FROM listed
    UNION ALL
    SELECT cluster, name, uid, observed_ts FROM objects WHERE kind = 'Namespace' AND api_version = 'v1'
)
SELECT cluster, name AS namespace, uid, min(ts) AS first_ts, max(ts) AS last_ts, count(*) AS seen
FROM found
WHERE uid IS NOT NULL AND list_position(['kube-system', 'default', 'kube-public'], name) > 0
GROUP BY ALL
