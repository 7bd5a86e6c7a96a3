-- one row per known state of an object of one resource, in the order of time: its JSON, or null from when it may be gone
-- writer: who wrote that state; null for a snapshot
SELECT namespace, name, stage_ts AS since, CASE WHEN deleted THEN NULL ELSE object END AS object, writer
FROM object_versions
WHERE cluster = $cluster AND api_group = $api_group AND resource = $resource AND NOT dry_run AND name <> ''
    AND ($until IS NULL OR ts < $until)
UNION ALL
SELECT coalesce(namespace, ''), name, observed_ts, object, NULL
FROM objects
WHERE cluster = $cluster AND kind = $kind AND split_part('/' || api_version, '/', -2) = $api_group
    AND ($until IS NULL OR observed_ts < $until)
UNION ALL
-- A delete may leave the object there for some time, and a deletecollection names no object: a witness must surely exist.
SELECT coalesce(namespace, ''), coalesce(name, ''), ts, NULL, NULL
FROM requests
WHERE cluster = $cluster AND api_group = $api_group AND resource = $resource AND verb IN ('delete', 'deletecollection')
    AND code < 300 AND ($until IS NULL OR ts < $until)
ORDER BY since, object IS NOT NULL, namespace, name
