-- the workload that an object belongs to, as `Kind/name` of its controller, or `resource/name` of the object itself
-- resource: of objectRef
-- name: of objectRef; null for generateName
-- object: JSON of the object, see recorded_object
--
-- A ReplicaSet that is named after a pod-template-hash belongs to the Deployment whose name precedes the hash. Longer chains of
-- owners are not followed, because the log may lack some of them.
CREATE MACRO workload(resource, name, object) AS CASE
    WHEN controller_of(object) IS NULL THEN
        resource || '/' || coalesce(name, (object ->> '$.metadata.name'), (object ->> '$.metadata.generateName') || '*', '?')
    WHEN ends_with(controller_of(object) ->> '$.name', '-' || (object ->> '$.metadata.labels.pod-template-hash')) THEN
        'Deployment/' || left(controller_of(object) ->> '$.name', -1 - len(object ->> '$.metadata.labels.pod-template-hash'))
    ELSE (controller_of(object) ->> '$.kind') || '/' || (controller_of(object) ->> '$.name')
END
