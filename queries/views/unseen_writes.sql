-- one row per recorded update that proves an earlier write of its object of which no event is recorded: (cluster, audit_id, ts)
-- replaced_rv: the resourceVersion that the update replaced; nothing recorded made it
-- known_rv: the object's newest recorded version before
-- known_ts: when that was recorded
--
-- An update that names a resourceVersion succeeds only if the stored object has exactly that one. So where an earlier version is
-- recorded and that one is not, somebody wrote in between: the event was lost, or the audit policy gave it level None. Writes that are
-- recorded without a body, which may have made it, prove nothing and are passed over.
WITH writes AS (
    SELECT
        cluster, audit_id, ts, stage_ts, verb, api_group, resource, subresource,
        -- The URL of a namespace names it twice, except when it is created.
        CASE WHEN resource = 'namespaces' AND api_group = '' THEN '' ELSE coalesce(namespace, '') END AS namespace,
        object_name(name, verb, response_object) AS name,
        user_name, obj_rv,
        coalesce(response_object ->> '$.metadata.uid', response_object ->> '$.rows[0].object.metadata.uid') AS uid,
        -- A Table has it too: that of the one object in it.
        response_object ->> '$.metadata.resourceVersion' AS rv
    FROM requests
    WHERE resource IS NOT NULL AND verb IN ('create', 'update', 'patch', 'delete', 'deletecollection', 'get') AND code < 300
),
named AS (
    SELECT cluster, api_group, resource, namespace, name, verb, obj_rv, uid, rv, ts, stage_ts, audit_id, subresource, user_name
    FROM writes
    WHERE verb = 'update' AND obj_rv <> '' AND obj_rv <> '0' AND uid IS NOT NULL
),
known AS (
    SELECT cluster, api_group, resource, namespace, name, rv, stage_ts AS known_ts FROM writes WHERE rv IS NOT NULL
    UNION ALL
    -- A snapshot names kinds and no resources, so its objects are found by their uid.
    SELECT
        named.cluster, named.api_group, named.resource, named.namespace, named.name,
        objects.resource_version, objects.observed_ts
    FROM objects JOIN named USING (cluster, uid)
    WHERE objects.resource_version IS NOT NULL
),
unmade AS (
    SELECT *
    FROM named
    WHERE NOT EXISTS (
        FROM known
        WHERE known.cluster = named.cluster AND known.api_group = named.api_group AND known.resource = named.resource
            AND known.namespace = named.namespace AND known.name = named.name AND known.rv = named.obj_rv
    )
),
placed AS (
    SELECT
        unmade.cluster, unmade.audit_id, unmade.ts, api_group, resource, unmade.subresource, namespace, name, unmade.user_name,
        unmade.obj_rv, max(known_ts) AS known_ts, arg_max(known.rv, known_ts) AS known_rv
    FROM unmade JOIN known USING (cluster, api_group, resource, namespace, name)
    WHERE known_ts < unmade.ts
    GROUP BY ALL
),
bodyless AS (
    SELECT cluster, api_group, resource, namespace, name, verb, ts, stage_ts FROM writes WHERE verb <> 'get' AND rv IS NULL
)
SELECT
    cluster, audit_id, ts, api_group, resource, subresource, namespace, name, user_name,
    obj_rv AS replaced_rv, known_rv, known_ts
FROM placed
WHERE NOT EXISTS (
    FROM bodyless
    WHERE bodyless.cluster = placed.cluster AND bodyless.api_group = placed.api_group AND bodyless.resource = placed.resource
        AND bodyless.namespace IN (placed.namespace, '') AND (bodyless.name = placed.name OR bodyless.verb = 'deletecollection')
        AND bodyless.stage_ts >= placed.known_ts AND bodyless.ts <= placed.ts
)
