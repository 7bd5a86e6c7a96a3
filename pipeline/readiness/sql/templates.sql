-- one row per object in `existing` whose pod template made no Pod that (policy, binding) judged since the object was last written
-- maker: the user that was last recorded to create Pods for this kind of owner; null where none was
--
-- Objects that a controller makes from another object of this list are left out, because they have its template. So are finished
-- Jobs and ReplicaSets without replicas.
WITH makers AS (
    SELECT owner_kind, arg_max(user_name, ts) AS maker, arg_max(user_groups, ts) AS maker_groups
    FROM subjects
    WHERE kind = 'Pod' AND verb = 'create' AND subresource = '' AND owner_kind IS NOT NULL
    GROUP BY ALL
)
SELECT e.*, m.maker, m.maker_groups
FROM existing AS e
LEFT JOIN makers AS m ON m.owner_kind = CASE e.kind WHEN 'Deployment' THEN 'ReplicaSet' WHEN 'CronJob' THEN 'Job' ELSE e.kind END
WHERE (e.api_group, e.resource) IN (
        ('apps', 'deployments'), ('apps', 'statefulsets'), ('apps', 'daemonsets'), ('apps', 'replicasets'),
        ('batch', 'jobs'), ('batch', 'cronjobs'), ('', 'replicationcontrollers')
    )
    AND coalesce(controller_of(e.object) ->> '$.kind', '') NOT IN ('Deployment', 'CronJob')
    AND NOT (e.resource = 'jobs' AND (e.object ->> '$.status.completionTime') IS NOT NULL)
    AND NOT (e.resource = 'replicasets' AND coalesce(e.object ->> '$.spec.replicas', '1') = '0')
    AND NOT EXISTS (
        FROM outcomes AS o
        WHERE o.policy = $policy AND o.binding IS NOT DISTINCT FROM $binding AND o.outcome <> 'unknown'
            AND o.cluster = e.cluster AND o.namespace = e.namespace AND o.resource = 'pods' AND o.unit = e.kind || '/' || e.name
            AND o.ts >= coalesce(e.written_ts, e.version_ts)
    )
ORDER BY e.cluster, e.resource, e.namespace, e.name
