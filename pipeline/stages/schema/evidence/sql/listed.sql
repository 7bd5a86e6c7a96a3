-- one row per object of one kind in a snapshot, the earliest snapshot first: (cluster, observed_ts, source, namespace, name)
SELECT cluster, observed_ts, source, api_version, coalesce(namespace, '') AS namespace, name, resource_version, object
FROM objects
WHERE kind = $kind AND starts_with(api_version, $group || '/')
    AND observed_ts < coalesce($until, 'infinity'::TIMESTAMPTZ)
ORDER BY observed_ts, cluster, source, namespace, name
