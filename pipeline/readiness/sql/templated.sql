-- `templated`: one row per object in `existing` with a pod template of its own
-- maker: the user that was last recorded to create Pods for this kind of owner; null where none was
--
-- Objects that a controller makes from another object of this list are left out, because they have its template. So are finished
-- Jobs and ReplicaSets without replicas.
CREATE OR REPLACE TEMP TABLE templated AS
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
