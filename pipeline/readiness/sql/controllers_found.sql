-- adds a row to `controllers` for each object in `frontier`, from the bodies of the whole lake and then from snapshots
-- Without a body, the name of a ReplicaSet names its Deployment. Any other chain ends with the object.
--
-- The last controller counts, also if the object lost it. So the Pods of a deleted Job belong to this Job, whenever a replay begins.
WITH versions AS (
    SELECT
        e.cluster, coalesce(e.namespace, '') AS namespace, e.api_group, e.resource, e.name,
        arg_max(e.response_object, (e.ts, e.audit_id)) AS object,
        -- A search for the word takes a fraction of the time of reading each body as JSON.
        arg_max(
            CASE WHEN contains(e.response_object::VARCHAR, '"ownerReferences"') THEN controller_of(e.response_object) END,
            (e.ts, e.audit_id)
        ) AS controller
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
        cluster, namespace, coalesce(kinds.kind, object ->> '$.kind') AS kind, name, controller,
        'ownerReferences' AS source, object -> '$.metadata' AS metadata
    FROM versions LEFT JOIN kinds USING (api_group, resource)
    UNION ALL
    SELECT
        o.cluster, coalesce(o.namespace, '') AS namespace, o.kind, o.name,
        arg_max(controller_of(o.object), o.observed_ts) AS controller,
        'ownerReferences in a snapshot' AS source,
        arg_max(o.object -> '$.metadata', o.observed_ts) AS metadata
    FROM objects AS o
    JOIN frontier AS f ON o.cluster = f.cluster AND o.kind = f.kind AND o.name = f.name
        AND coalesce(o.namespace, '') IN (f.namespace, '')
    GROUP BY ALL
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
    coalesce(found.controller ->> '$.kind', CASE WHEN hashes.hash IS NOT NULL AND found.name IS NULL THEN 'Deployment' END),
    coalesce(found.controller ->> '$.name', CASE WHEN found.name IS NULL THEN left(f.name, -1 - len(hashes.hash)) END),
    coalesce(
        found.source,
        CASE WHEN hashes.hash IS NOT NULL THEN 'pod-template-hash' WHEN f.is_whole THEN 'ownerReferences' END,
        'not recorded'
    ),
    found.metadata
FROM frontier AS f
LEFT JOIN found ON found.cluster = f.cluster AND found.kind = f.kind AND found.name = f.name AND found.namespace IN (f.namespace, '')
LEFT JOIN hashes ON f.kind = 'ReplicaSet' AND NOT f.is_whole
    AND hashes.cluster = f.cluster AND hashes.namespace = f.namespace AND hashes.name = f.name
QUALIFY row_number() OVER (
    PARTITION BY f.cluster, f.namespace, f.kind, f.name
    ORDER BY found.controller IS NULL, found.source NULLS LAST, found.namespace DESC
) = 1
