-- one row per recorded create of a StackInstall or ClusterStackInstall, by time
-- package: without its version, so that two versions of one stack are the same package
-- removed_ts: when an object of this name was deleted afterwards; null while it stays
WITH creates AS (
    SELECT
        cluster, ts, audit_id, resource, coalesce(namespace, '') AS namespace,
        coalesce(object_name(name, verb, response_object), name, request_object ->> '$.metadata.name', '') AS name,
        coalesce(user_name, '') AS user_name,
        code BETWEEN 200 AND 299 AS is_installed,
        coalesce(response_object ->> '$.spec.package', request_object ->> '$.spec.package', '') AS given_package
    FROM requests
    WHERE api_group = 'stacks.crossplane.io' AND resource IN ('clusterstackinstalls', 'stackinstalls') AND verb = 'create'
        AND coalesce(subresource, '') = ''
),
deletes AS (
    SELECT cluster, ts AS removed_ts, resource, coalesce(namespace, '') AS namespace, name
    FROM requests
    WHERE api_group = 'stacks.crossplane.io' AND resource IN ('clusterstackinstalls', 'stackinstalls') AND verb = 'delete'
        AND code BETWEEN 200 AND 299
)
SELECT
    creates.* EXCLUDE (given_package),
    given_package AS version,
    regexp_replace(given_package, ':[^:/]*$', '') AS package,
    (
        SELECT min(removed_ts) FROM deletes
        WHERE deletes.cluster = creates.cluster AND deletes.resource = creates.resource AND deletes.namespace = creates.namespace
            AND deletes.name = creates.name AND removed_ts > creates.ts
    ) AS removed_ts
FROM creates
ORDER BY ts, audit_id
