-- one row per combination of the asked dimensions: recorded failures, counted
-- dimensions: any of policy, binding, message, namespace, user, resource, workload, day; the columns of the others are null
-- since: earliest time of a request, or null
-- until: time before which requests count, or null
-- clusters: only these, or null for all; the following arguments likewise
-- policies: names
-- bindings: names
-- namespaces: names; an empty name stands for cluster-scoped objects
-- users: names
-- resources: plurals
--
-- Columns: policy, binding, message, namespace, user_name, resource, workload, day, failures, requests, admitted (requests that
-- went through), users, namespaces, first_ts, last_ts. The microsecond of receipt distinguishes requests. Workloads come from
-- bodies, so this dimension reads bodies. Workloads are counted within their namespace, because two namespaces may have workloads
-- of the same name.
CREATE MACRO violation_rollup(
    dimensions, since, until,
    clusters := NULL, policies := NULL, bindings := NULL, namespaces := NULL, users := NULL, resources := NULL
) AS TABLE
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
    count(*) AS failures,
    count(DISTINCT ts) AS requests,
    count(DISTINCT ts) FILTER (admitted) AS admitted,
    count(DISTINCT user_name) AS users,
    count(DISTINCT namespace) AS namespaces,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM violations
WHERE (since IS NULL OR ts >= since) AND (until IS NULL OR ts < until)
    AND (clusters IS NULL OR list_contains(clusters, cluster))
    AND (policies IS NULL OR list_contains(policies, policy))
    AND (bindings IS NULL OR list_contains(bindings, binding))
    AND (namespaces IS NULL OR list_contains(namespaces, coalesce(namespace, '')))
    AND (users IS NULL OR list_contains(users, user_name))
    AND (resources IS NULL OR list_contains(resources, resource))
GROUP BY ALL
ORDER BY failures DESC, policy, binding, message, namespace, user_name, resource, workload, day
