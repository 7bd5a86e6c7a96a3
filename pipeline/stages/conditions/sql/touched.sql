-- one row per (user, namespace, name) of one resource: when the user last asked for the object, and when that was last refused
SELECT
    user_name, coalesce(namespace, '') AS namespace, name, max(ts) AS asked, max(ts) FILTER (code = 403) AS refused
FROM requests
WHERE cluster = $cluster AND coalesce(api_group, '') = $api_group AND resource = $resource AND name <> ''
    AND verb IN ('get', 'update', 'patch', 'delete')
GROUP BY ALL
