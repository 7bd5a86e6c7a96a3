-- the workload that an object belongs to, as `Kind/name` of its controller, or of the object itself
-- api_group: of objectRef
-- resource: of objectRef
-- name: of objectRef; null for generateName
-- object: JSON of the object, see recorded_object
--
-- A ReplicaSet that is named after a pod-template-hash belongs to the Deployment whose name precedes the hash. Longer chains of
-- owners are not followed, because the log may lack some of them. Where neither the table of built-in resources nor the body
-- names the kind, the resource stands in its place.
CREATE MACRO workload(api_group, resource, name, object) AS CASE
    WHEN controller_of(object) IS NULL THEN
        coalesce(built_in_kind(api_group, resource), kind_in_body(api_group, object), resource) || '/'
        || coalesce(name, (object ->> '$.metadata.name'), (object ->> '$.metadata.generateName') || '*', '?')
    WHEN ends_with(controller_of(object) ->> '$.name', '-' || (object ->> '$.metadata.labels.pod-template-hash')) THEN
        'Deployment/' || left(controller_of(object) ->> '$.name', -1 - len(object ->> '$.metadata.labels.pod-template-hash'))
    ELSE (controller_of(object) ->> '$.kind') || '/' || (controller_of(object) ->> '$.name')
END
