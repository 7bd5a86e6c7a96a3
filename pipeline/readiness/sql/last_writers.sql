-- one row per workload of the given names: the user of its last write, and when it was
-- Controllers of the cluster write owners, too; who asked for the workload is somebody else.
WITH wanted AS (SELECT unnest($namespaces) AS namespace, unnest($kinds) AS kind, unnest($names) AS name)
SELECT namespace, kind, name, arg_max(user_name, ts), max(ts)
FROM requests JOIN wanted USING (namespace, name)
WHERE verb IN ('create', 'update', 'patch') AND subresource IS NULL AND code BETWEEN 200 AND 299
    AND resource IN (kind || 's', kind || 'es')
    AND (NOT starts_with(user_name, 'system:') OR starts_with(user_name, 'system:serviceaccount:'))
    AND NOT starts_with(user_name, 'system:serviceaccount:kube-system:')
GROUP BY ALL
