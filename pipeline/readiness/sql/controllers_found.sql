-- adds to `controllers` what recorded objects, and then snapshots, say of the objects in `frontier`; without either, the name of a
-- ReplicaSet tells its Deployment; of the others nothing is known, and the chain ends with them
WITH versions AS (
    SELECT
        e.cluster, coalesce(e.namespace, '') AS namespace, e.api_group, e.resource, e.name,
        arg_max(e.response_object, (e.ts, e.audit_id)) AS object
    FROM events AS e
    JOIN frontier AS f ON e.cluster = f.cluster AND e.name = f.name AND coalesce(e.namespace, '') IN (f.namespace, '')
    LEFT JOIN kinds ON kinds.api_group = e.api_group AND kinds.resource = e.resource
    WHERE e.stage = 'ResponseComplete' AND e.code < 300 AND e.verb IN ('create', 'update', 'patch', 'get')
        AND coalesce(e.subresource, '') IN ('', 'status') AND e.response_object IS NOT NULL
        AND coalesce(kinds.kind, f.kind) = f.kind
        -- A client that asked for a Table got one; a Table has no owner references.
        AND NOT contains(left(e.response_object::VARCHAR, 40), '"Table"')
    GROUP BY ALL
),
found AS (
    SELECT
        cluster, namespace, coalesce(kinds.kind, object ->> '$.kind') AS kind, name, controller_of(object) AS controller,
        'ownerReferences' AS source, object -> '$.metadata' AS metadata
    FROM versions LEFT JOIN kinds USING (api_group, resource)
    UNION ALL
    SELECT o.cluster, coalesce(o.namespace, '') AS namespace, o.kind, o.name, controller_of(o.object), 'ownerReferences in a snapshot',
        o.object -> '$.metadata'
    FROM objects AS o
    JOIN frontier AS f ON o.cluster = f.cluster AND o.kind = f.kind AND o.name = f.name
        AND coalesce(o.namespace, '') IN (f.namespace, '')
),
-- A ReplicaSet is named after its Deployment and the hash of its template.
hashes AS (
    SELECT cluster, namespace, owner_name AS name, min(template_hash) AS hash
    FROM subjects
    WHERE owner_kind = 'ReplicaSet' AND ends_with(owner_name, '-' || template_hash)
    GROUP BY ALL
)
INSERT INTO controllers
SELECT
    f.cluster, f.namespace, f.kind, f.name,
    coalesce(found.controller ->> '$.kind', CASE WHEN found.name IS NULL AND hashes.hash IS NOT NULL THEN 'Deployment' END),
    coalesce(
        found.controller ->> '$.name',
        CASE WHEN found.name IS NULL THEN left(f.name, -1 - len(hashes.hash)) END
    ),
    coalesce(found.source, CASE WHEN hashes.hash IS NOT NULL THEN 'pod-template-hash' END, 'not recorded'),
    found.metadata
FROM frontier AS f
LEFT JOIN found ON found.cluster = f.cluster AND found.kind = f.kind AND found.name = f.name AND found.namespace IN (f.namespace, '')
LEFT JOIN hashes ON f.kind = 'ReplicaSet'
    AND hashes.cluster = f.cluster AND hashes.namespace = f.namespace AND hashes.name = f.name
QUALIFY row_number() OVER (
    PARTITION BY f.cluster, f.namespace, f.kind, f.name ORDER BY found.source NULLS LAST, found.namespace DESC
) = 1
