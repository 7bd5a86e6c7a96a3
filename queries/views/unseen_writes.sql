-- one row per recorded update that proves an unrecorded earlier write of its object: (cluster, audit_id, ts)
-- replaced_rv: the resourceVersion that the update replaced; no recorded write made it
-- known_rv: the object's newest recorded version before
-- known_ts: when that version was recorded
--
-- An update that names a resourceVersion succeeds only if the stored object has exactly that one. Suppose an older version is
-- recorded and the named one is not. Then another write came in between: its event was lost, or the audit policy gave it level
-- None. Writes recorded without a body may have made the version, so they prove nothing and are skipped.
WITH answered AS (
    -- This reads final events and not requests, so that no join carries bodies.
    SELECT
        cluster, audit_id, ts, stage_ts, verb, api_group, resource, subresource, namespace, name, obj_rv, code, response_object,
        CASE WHEN json_valid(impersonated_user) IS FALSE THEN NULL ELSE coalesce(impersonated_user ->> '$.username', user_name) END AS user_name
    FROM events
    WHERE stage IN ('ResponseComplete', 'Panic')
    UNION ALL
    SELECT
        cluster, audit_id, ts, stage_ts, verb, api_group, resource, subresource, namespace, name, obj_rv, code, response_object,
        user_name
    FROM folded_requests
    WHERE NOT complete
),
told AS (
    SELECT
        cluster, audit_id, ts, stage_ts, verb, api_group, resource, subresource, namespace, name, user_name, obj_rv,
        -- Each body is parsed once, for all its fields.
        json_extract_string(response_object, [
            '$.metadata.name', '$.metadata.uid', '$.rows[0].object.metadata.uid', '$.metadata.resourceVersion'
        ]) AS said
    FROM answered
    WHERE resource IS NOT NULL AND code < 300
        AND (verb IN ('create', 'update', 'patch') OR verb IN ('delete', 'deletecollection', 'get'))
),
writes AS MATERIALIZED (
    SELECT
        cluster, ts, stage_ts, verb, api_group, resource,
        -- Only updates keep the key of their request, because this table is held in memory.
        CASE WHEN verb = 'update' THEN audit_id END AS audit_id,
        CASE WHEN verb = 'update' THEN subresource END AS subresource,
        CASE WHEN verb = 'update' THEN user_name END AS user_name,
        object_place(api_group, resource, namespace) AS namespace,
        coalesce(name, CASE WHEN verb = 'create' THEN said[1] END, '') AS name,
        CASE WHEN verb = 'update' THEN obj_rv END AS obj_rv,
        CASE WHEN verb = 'update' THEN coalesce(said[2], said[3]) END AS uid,
        -- A Table has it too, from the one object in it.
        said[4] AS rv
    FROM told
),
named AS NOT MATERIALIZED (
    SELECT cluster, api_group, resource, namespace, name, verb, obj_rv, uid, rv, ts, stage_ts, audit_id, subresource, user_name
    FROM writes
    WHERE verb = 'update' AND obj_rv <> '' AND obj_rv <> '0' AND uid IS NOT NULL
),
known AS NOT MATERIALIZED (
    SELECT cluster, api_group, resource, namespace, name, rv, stage_ts AS known_ts FROM writes WHERE rv IS NOT NULL
    UNION ALL
    -- A snapshot names kinds and no resources, so the join finds its objects by uid.
    SELECT
        found.cluster, found.api_group, found.resource, found.namespace, found.name,
        objects.resource_version, objects.observed_ts
    FROM objects JOIN (SELECT DISTINCT cluster, api_group, resource, namespace, name, uid FROM named) AS found USING (cluster, uid)
    WHERE objects.resource_version IS NOT NULL
),
unmade AS MATERIALIZED (
    FROM named ANTI JOIN known
    ON known.rv = named.obj_rv AND known.name = named.name AND known.namespace = named.namespace
        AND known.resource = named.resource AND known.api_group = named.api_group AND known.cluster = named.cluster
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
),
unexplained AS (
    FROM placed ANTI JOIN bodyless
    ON bodyless.name = placed.name AND bodyless.resource = placed.resource AND bodyless.api_group = placed.api_group
        AND bodyless.cluster = placed.cluster AND bodyless.namespace IN (placed.namespace, '')
        AND bodyless.stage_ts >= placed.known_ts AND bodyless.ts <= placed.ts
)
SELECT
    cluster, audit_id, ts, api_group, resource, subresource, namespace, name, user_name,
    obj_rv AS replaced_rv, known_rv, known_ts
FROM unexplained AS placed ANTI JOIN (FROM bodyless WHERE verb = 'deletecollection') AS emptied
ON emptied.resource = placed.resource AND emptied.api_group = placed.api_group AND emptied.cluster = placed.cluster
    AND emptied.namespace IN (placed.namespace, '')
    AND emptied.stage_ts >= placed.known_ts AND emptied.ts <= placed.ts
