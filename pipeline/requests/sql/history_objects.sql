-- one row per listed object of the kinds asked for, as `GROUP/KIND`; without a name where a list was empty
SELECT cluster, observed_ts, list_rv, api_version, kind, namespace, name, uid, resource_version, object, source
FROM lake_objects
WHERE list_contains($kinds, CASE WHEN contains(api_version, '/') THEN split_part(api_version, '/', 1) ELSE '' END || '/' || kind)
    AND ($cluster IS NULL OR cluster = $cluster)
    AND ($until IS NULL OR observed_ts < $until)
    AND ($names IS NULL OR name IN (SELECT unnest($names::VARCHAR[])))
ORDER BY observed_ts, api_version, kind, namespace, name
