-- one row per CustomResourceDefinition of a cluster: its last version in the log or a snapshot
WITH shown AS (
    SELECT cluster, name, ts AS shown_ts, object, 'response to ' || audit_id AS source
    FROM object_versions
    WHERE api_group = 'apiextensions.k8s.io' AND resource = 'customresourcedefinitions' AND NOT dry_run
    UNION ALL
    SELECT cluster, name, observed_ts, object, 'snapshot of ' || strftime(observed_ts, '%Y-%m-%dT%H:%M:%SZ')
    FROM objects
    WHERE kind = 'CustomResourceDefinition' AND starts_with(api_version, 'apiextensions.k8s.io/')
)
SELECT cluster, name, max(shown_ts) AS shown_ts, arg_max(object, shown_ts) AS object, arg_max(source, shown_ts) AS source
FROM shown
WHERE shown_ts < coalesce($until, 'infinity'::TIMESTAMPTZ)
GROUP BY ALL
ORDER BY name, cluster
