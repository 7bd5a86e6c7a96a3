-- one row per recorded create by the manager of an install, while the install was there
-- install_id: the audit ID of the create of the install. manager: who wrote the install's own object after its creation, except for
-- who created it. A create belongs to the newest install of its manager before it, of its own namespace if it has one
WITH written AS (
    SELECT
        cluster, ts, audit_id, verb, api_group, resource, coalesce(namespace, '') AS namespace, coalesce(user_name, '') AS user_name,
        coalesce(object_name(name, verb, response_object), name, request_object ->> '$.metadata.name', '') AS name,
        api_group = 'stacks.crossplane.io' AND resource IN ('clusterstackinstalls', 'stackinstalls') AS is_install
    FROM requests
    WHERE code BETWEEN 200 AND 299 AND verb IN ('create', 'update', 'patch', 'delete')
),
installs AS (
    SELECT *, coalesce(
        (
            SELECT min(gone.ts) FROM written AS gone
            WHERE gone.is_install AND gone.verb = 'delete' AND gone.ts > made.ts AND gone.cluster = made.cluster
                AND gone.resource = made.resource AND gone.namespace = made.namespace AND gone.name = made.name
        ),
        'infinity'::TIMESTAMPTZ
    ) AS gone_ts
    FROM written AS made
    WHERE made.is_install AND made.verb = 'create'
),
managers AS (
    SELECT DISTINCT installs.audit_id AS install_id, installs.ts, gone_ts, installs.cluster, installs.namespace, later.user_name
    FROM installs
    JOIN written AS later USING (cluster, resource, namespace, name)
    WHERE later.is_install AND later.verb IN ('update', 'patch') AND later.ts BETWEEN installs.ts AND gone_ts
        AND later.user_name <> installs.user_name
)
SELECT install_id, managers.user_name AS manager, concat_ws('.', resource, nullif(api_group, '')) AS resource, made.namespace, name
FROM managers
LEFT JOIN (SELECT * FROM written WHERE verb = 'create' AND NOT is_install) AS made
    ON made.cluster = managers.cluster AND made.user_name = managers.user_name AND made.ts BETWEEN managers.ts AND gone_ts
        AND made.namespace IN ('', managers.namespace)
QUALIFY made.audit_id IS NULL OR row_number() OVER (PARTITION BY made.audit_id, managers.user_name ORDER BY managers.ts DESC) = 1
ORDER BY install_id, manager, made.ts, made.audit_id
