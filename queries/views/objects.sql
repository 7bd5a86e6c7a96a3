-- one row per object of an ingested snapshot: (cluster, observed_ts, api_version, kind, namespace, name)
-- cluster: name under which the lake keeps the cluster
-- api_version: group and version, as in the manifest
-- kind: as in the manifest
-- name: metadata.name
-- uid: metadata.uid
-- resource_version: metadata.resourceVersion
-- observed_ts: when the list was taken; the lists of one snapshot are from different moments
-- list_rv: resourceVersion of the list
-- namespace: null for a cluster-scoped object
-- object: JSON as listed
-- source: file of its list; empty for an object that was alone in its file, which says nothing about other objects
--
-- Empty lists have no row here; they are in `object_lists`.
SELECT * FROM lake_objects
WHERE name <> ''
