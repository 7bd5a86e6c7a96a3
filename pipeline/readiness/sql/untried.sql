-- one row per object in `existing`, of the resources in `asked`, that (policy, binding) did not judge in the window
--
-- A Namespace is in no namespace, but requests for it have its own name as their namespace.
SELECT e.* EXCLUDE (home), coalesce(r.unit, e.kind || '/' || e.name) AS unit
FROM (SELECT *, CASE WHEN api_group = '' AND kind = 'Namespace' THEN name ELSE namespace END AS home FROM existing) AS e
SEMI JOIN asked AS a
    ON a.api_group = e.api_group AND a.api_version IS NOT DISTINCT FROM e.api_version AND a.resource = e.resource
        AND a.is_namespaced = (e.namespace <> '')
LEFT JOIN roots AS r ON r.cluster = e.cluster AND r.namespace = e.home AND r.kind = e.kind AND r.name = e.name
WHERE NOT EXISTS (
    FROM outcomes AS o
    WHERE o.policy = $policy AND o.binding IS NOT DISTINCT FROM $binding AND o.outcome <> 'unknown'
        AND o.cluster = e.cluster AND o.namespace = e.home AND o.kind = e.kind AND o.name = e.name
)
ORDER BY e.cluster, e.resource, e.namespace, e.name
