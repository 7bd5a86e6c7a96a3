-- one row per combination of the asked dimensions: recorded failures, counted
-- dimensions: any of policy, binding, message, namespace, user, resource, workload, day, cluster; the others' columns are null
-- since: earliest time of a request, or null
-- until: time before which requests count, or null
-- clusters: only these, or null for all; the following arguments likewise
-- policies: names
-- bindings: names
-- namespaces: names; an empty name stands for cluster-scoped objects
-- users: names
-- resources: plurals
--
-- Columns: policy, binding, message, namespace, user_name, resource, workload, day, cluster, failures, requests, admitted (requests
-- that went through), users, namespaces, first_ts, last_ts. A request is a (cluster, audit_id, ts); users and namespaces of two
-- clusters are different ones, too. Workloads come from bodies, so this dimension reads bodies. Workloads are counted within their
-- cluster and namespace, because two of these may have workloads of the same name. A Namespace is in the namespace of its name.
CREATE MACRO violation_rollup(
    dimensions, since, until,
    clusters := NULL, policies := NULL, bindings := NULL, namespaces := NULL, users := NULL, resources := NULL
) AS TABLE
WITH counted AS (
    SELECT
        v.* EXCLUDE (namespace, workload),
        CASE WHEN v.resource = 'namespaces' AND coalesce(v.api_group, '') = '' THEN coalesce(v.namespace, v.name) ELSE v.namespace END
            AS namespace,
        -- A body that is no object, such as that of a delete, leaves the kind of a custom resource to its definition.
        CASE WHEN starts_with(v.workload, v.resource || '/') THEN coalesce(custom_kinds.kind || substr(v.workload, len(v.resource) + 1), v.workload)
            ELSE v.workload END AS workload
    FROM violations AS v
    LEFT JOIN custom_kinds ON custom_kinds.cluster = v.cluster AND custom_kinds.api_group = v.api_group
        AND custom_kinds.resource = v.resource
)
SELECT
    CASE WHEN list_contains(dimensions, 'policy') THEN policy END AS policy,
    CASE WHEN list_contains(dimensions, 'binding') THEN binding END AS binding,
    CASE WHEN list_contains(dimensions, 'message') THEN message END AS message,
    CASE WHEN list_contains(dimensions, 'namespace') OR list_contains(dimensions, 'workload') THEN namespace END AS namespace,
    CASE WHEN list_contains(dimensions, 'user') THEN user_name END AS user_name,
    CASE WHEN list_contains(dimensions, 'resource') THEN
        concat_ws('/', concat_ws('.', resource, nullif(api_group, '')), nullif(subresource, ''))
    END AS resource,
    CASE WHEN list_contains(dimensions, 'workload') THEN workload END AS workload,
    CASE WHEN list_contains(dimensions, 'day') THEN ts::DATE END AS day,
    CASE WHEN list_contains(dimensions, 'cluster') OR list_contains(dimensions, 'workload') THEN cluster END AS cluster,
    count(*) AS failures,
    count(DISTINCT (cluster, audit_id, ts)) AS requests,
    count(DISTINCT (cluster, audit_id, ts)) FILTER (admitted) AS admitted,
    count(DISTINCT (cluster, user_name)) FILTER (user_name IS NOT NULL) AS users,
    count(DISTINCT (cluster, namespace)) FILTER (namespace IS NOT NULL) AS namespaces,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM counted
WHERE (since IS NULL OR ts >= since) AND (until IS NULL OR ts < until)
    AND (clusters IS NULL OR list_contains(clusters, cluster))
    AND (policies IS NULL OR list_contains(policies, policy))
    AND (bindings IS NULL OR list_contains(bindings, binding))
    AND (namespaces IS NULL OR list_contains(namespaces, coalesce(namespace, '')))
    AND (users IS NULL OR list_contains(users, user_name))
    AND (resources IS NULL OR list_contains(resources, resource))
GROUP BY ALL
ORDER BY failures DESC, cluster, policy, binding, message, namespace, user_name, resource, workload, day
