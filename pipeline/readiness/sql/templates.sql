-- one row per object in `templated` whose template made no Pod that (policy, binding) judged since the object was last written
FROM templated AS e
WHERE NOT EXISTS (
    FROM outcomes AS o
    WHERE o.policy = $policy AND o.binding IS NOT DISTINCT FROM $binding AND o.outcome <> 'unknown'
        AND o.cluster = e.cluster AND o.namespace = e.namespace AND o.resource = 'pods' AND o.unit = e.kind || '/' || e.name
        AND o.ts >= coalesce(e.written_ts, e.version_ts)
)
ORDER BY e.cluster, e.resource, e.namespace, e.name
