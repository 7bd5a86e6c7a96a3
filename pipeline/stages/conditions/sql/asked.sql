-- one row per request of a window: (cluster, audit_id, ts), with the question that it asks a chain of authorizers
-- uri: the path and the selectors, which are all that authorizers see of a URL; empty where the log has none
-- referred: what objectRef says of a request without a URL, or whose path redaction changed
-- redacted: whether redaction replaced a name or a part of the path
-- recorded: what the log has of the authorization: `RBAC`, `other`, `forbid`, or empty without a decision
CREATE OR REPLACE TEMP TABLE conditions_asked AS
SELECT
    cluster, audit_id, ts, stage_ts, verb, operation, way,
    coalesce(api_group, '') AS api_group, coalesce(api_version, '') AS api_version,
    coalesce(resource, '') AS resource, coalesce(subresource, '') AS subresource, coalesce(namespace, '') AS namespace,
    verb IN ('update', 'patch') AND code >= 400 AS refused,
    coalesce(code, 0) AS code,
    coalesce(
        list_has_any(string_split(notes['redacted'], ','), ['requestURI', 'objectRef'])
        AND contains(concat_ws(' ', split_part(request_uri, '?', 1), name), 'REDACTED'),
        false
    ) AS is_redacted,
    coalesce(request_uri, '') = '' OR (is_redacted AND coalesce(resource, '') <> '') AS is_referred,
    {
        'cluster': cluster, 'verb': coalesce(verb, ''), 'operation': coalesce(operation, ''), 'way': coalesce(way, ''),
        'redacted': is_redacted,
        'uri': CASE WHEN is_referred THEN '' ELSE split_part(request_uri, '?', 1) || '?' || array_to_string(
            list_filter(
                [
                    regexp_extract(request_uri, '[?&](labelSelector=[^&]*)', 1),
                    regexp_extract(request_uri, '[?&](fieldSelector=[^&]*)', 1)
                ],
                lambda part: part <> '' AND list_position(['list', 'watch', 'deletecollection'], verb) > 0
            ),
            '&'
        ) END,
        'referred': CASE WHEN is_referred THEN {
            'group': coalesce(api_group, ''), 'version': coalesce(api_version, ''), 'resource': coalesce(resource, ''),
            'subresource': coalesce(subresource, ''), 'namespace': coalesce(namespace, ''), 'name': coalesce(name, '')
        } END,
        'user_name': coalesce(user_name, ''), 'user_groups': coalesce(user_groups, []),
        'recorded': CASE
            WHEN annotations['authorization.k8s.io/decision'] = 'forbid' THEN 'forbid'
            WHEN annotations['authorization.k8s.io/decision'] <> 'allow' THEN ''
            WHEN starts_with(annotations['authorization.k8s.io/reason'], 'RBAC: allowed by') THEN 'RBAC'
            WHEN annotations['authorization.k8s.io/decision'] = 'allow' THEN 'other'
            ELSE ''
        END
    } AS question
FROM reach
WHERE ts IS NOT NULL AND ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)
