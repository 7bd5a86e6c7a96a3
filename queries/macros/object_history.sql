-- one row per recorded whole version of one object, oldest first; the columns are those of object_versions
-- cluster: as ingested
-- api_group: empty for the core group
-- resource: plural, such as deployments
-- namespace: empty for a cluster-scoped object
-- name: metadata.name
CREATE MACRO object_history(cluster_name, group_name, resource_name, namespace_name, object_name) AS TABLE
FROM versions_of(object_name)
WHERE cluster = cluster_name AND api_group = group_name AND resource = resource_name
    AND namespace = namespace_name AND name = object_name
ORDER BY stage_ts, position
