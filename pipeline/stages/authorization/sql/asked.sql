-- one row per request of a window: (cluster, audit_id, ts), with everything that decides which permissions it needed
-- uri: without the options that authorizers do not see; empty where the log has none
-- version, namespace, name: as in objectRef; null where the URL says more
-- redacted: the note on a name or path that redaction replaced; then objectRef counts as if the log had no URI
-- wording: the note on a redacted message, see ingest/server/wordings.py
-- impersonation_constraint: the verb that allowed an impersonation; empty for the legacy mode, '?' where the field may have been lost
-- own: names the event whose bodies decide: writes of roles, bindings, admission policies, certificates and trust bundles; or whose
-- other annotations do: unsafe deletes; else empty
--
-- Controllers repeat themselves, so that few rows differ in all columns but the first ones.
CREATE OR REPLACE TEMP TABLE asked AS
WITH final AS (
    FROM events
    WHERE stage IN ('ResponseComplete', 'Panic')
),
unfinished AS (
    FROM events
    WHERE stage NOT IN ('ResponseComplete', 'Panic')
    QUALIFY row_number() OVER (PARTITION BY cluster, audit_id, ts ORDER BY stage_ts DESC, stage DESC) = 1
),
answered AS (
    FROM final
    UNION ALL
    FROM unfinished ANTI JOIN final USING (cluster, audit_id, ts)
),
chosen AS (
    SELECT
        *,
        coalesce(annotations['authorization.k8s.io/decision'], '') AS decision,
        coalesce(annotations['authorization.k8s.io/reason'], '') AS reason,
        coalesce(
            list_filter(
                string_split(notes['redacted'], ','),
                lambda note: note IN ('requestURI', 'objectRef') AND contains(concat_ws(' ', split_part(request_uri, '?', 1), name), 'REDACTED')
            )[1],
            ''
        ) AS redacted,
        coalesce(request_uri, '') = '' OR (redacted <> '' AND coalesce(resource, '') <> '') AS is_referred
    FROM answered
    WHERE ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
        AND ($user IS NULL OR coalesce(TRY(impersonated_user ->> '$.username'), user_name) = $user OR user_name = $user)
)
SELECT
    cluster, audit_id, ts, stage_ts,
    -- A review tells the operation alone: an update may have been a patch.
    CASE WHEN contains(notes['translated'], 'verb=operation') THEN '' ELSE coalesce(verb, '') END AS verb,
    CASE
        WHEN is_referred THEN ''
        WHEN NOT contains(request_uri, 'fieldSelector=') THEN split_part(request_uri, '?', 1)
        WHEN regexp_matches(request_uri, '[?&](limit|timeoutSeconds)=[0-9]*[^0-9&]') THEN request_uri
        ELSE split_part(request_uri, '?', 1) || '?fieldSelector=' || regexp_extract(request_uri, '[?&]fieldSelector=([^&]*)', 1)
    END AS uri,
    CASE WHEN is_referred THEN api_version END AS version,
    CASE WHEN is_referred THEN namespace END AS namespace,
    CASE WHEN is_referred THEN name END AS name,
    coalesce(user_name, '') AS user_name,
    coalesce(user_groups, []) AS user_groups,
    coalesce(impersonated_user, '') AS impersonated_user,
    CASE WHEN impersonated_user IS NULL THEN '' ELSE coalesce(user_extra, '') END AS user_extra,
    CASE
        WHEN impersonated_user IS NULL THEN ''
        WHEN extra ->> '$.authenticationMetadata.impersonationConstraint' IS NOT NULL
        THEN extra ->> '$.authenticationMetadata.impersonationConstraint'
        WHEN list_contains(flags, 'translated')
            OR list_contains(string_split(coalesce(notes['redacted'], ''), ','), 'fields')
        THEN '?'
        ELSE ''
    END AS impersonation_constraint,
    coalesce(api_group, '') AS api_group, coalesce(resource, '') AS resource, coalesce(subresource, '') AS subresource,
    -- The same question about no name in particular, where the URL has one; authorizers do not see the version. A Namespace is in the
    -- namespace of its own name.
    CASE
        WHEN coalesce(chosen.name, '') <> ''
            AND (list_position(['get', 'update', 'patch', 'delete'], verb) > 0 OR (verb = 'create' AND coalesce(subresource, '') <> ''))
            AND coalesce(resource, 'namespaces') <> 'namespaces' AND NOT is_referred
        THEN CASE WHEN coalesce(api_group, '') = '' THEN '/api/v1' ELSE '/apis/' || api_group || '/v1' END
            || CASE WHEN coalesce(chosen.namespace, '') = '' THEN '' ELSE '/namespaces/' || chosen.namespace END
            || '/' || resource || '/-' || CASE WHEN coalesce(subresource, '') = '' THEN '' ELSE '/' || subresource END
        ELSE ''
    END AS nameless_uri,
    decision, reason, redacted,
    CASE
        WHEN code BETWEEN 200 AND 299 THEN CASE WHEN code = 201 AND verb IN ('update', 'patch') THEN 201 ELSE 200 END
        WHEN code IN (101, 401, 403) THEN code
        WHEN code IS NULL THEN 0
        ELSE 400
    END AS code,
    CASE WHEN code = 403 AND decision <> 'forbid' THEN coalesce(status_message, '') ELSE '' END AS message,
    CASE WHEN code = 403 AND decision <> 'forbid' THEN coalesce(notes['wording'], '') ELSE '' END AS wording,
    CASE
        WHEN api_group = 'rbac.authorization.k8s.io' AND verb IN ('create', 'update', 'patch')
            OR api_group = 'certificates.k8s.io' AND (subresource IN ('approval', 'status') OR resource = 'clustertrustbundles')
                AND verb IN ('create', 'update', 'patch')
            OR api_group = 'admissionregistration.k8s.io' AND contains(resource, 'admissionpolic') AND coalesce(subresource, '') = ''
                AND verb IN ('create', 'update', 'patch')
            OR verb = 'delete' AND annotations['apiserver.k8s.io/unsafe-delete-ignore-read-error'] IS NOT NULL
        THEN concat_ws(' ', cluster, audit_id, epoch_us(stage_ts))
        ELSE ''
    END AS own
FROM chosen
