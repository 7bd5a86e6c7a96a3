-- one row per request of the table `asked`, as a pass of the stage, with its question
-- epoch: counts the changes of roles and bindings before the request, from the table `rbac_moments`; -1 where these do not matter
-- is_nameless: whether requests that differ only in the name of their object have this one question; $with_creates: also creates of a
-- subresource, which verdicts word by the name
--
-- An allowance by a binding that the files do not change stands at any time: `settled_reasons` lists these. Files that replace all
-- do not depend on the roles of the time. Neither holds for requests that need further permissions.
WITH sorted AS (
    SELECT
        asked.*,
        impersonated_user = '' AND own = '' AND message = '' AND code <> 201
            AND list_position(['attach', 'exec', 'portforward'], subresource) IS NULL AS is_single,
        settled_reasons.reason IS NOT NULL OR list_contains(user_groups, 'system:masters') AS is_settled,
        rbac_moments.epoch
    FROM asked
        LEFT JOIN settled_reasons ON asked.cluster = settled_reasons.cluster AND asked.reason = settled_reasons.reason
            AND asked.decision = 'allow'
        ASOF LEFT JOIN rbac_moments ON asked.cluster = rbac_moments.rbac_cluster AND asked.ts >= rbac_moments.since
),
named AS (
    SELECT
        *,
        is_single AND (is_settled OR $is_only) AS is_timeless,
        is_single AND (is_settled OR $is_name_blind) AND nameless_uri <> ''
            AND (verb <> 'create' OR $with_creates) AS is_nameless
    FROM sorted
)
SELECT
    cluster, audit_id, ts, stage_ts, 0 AS pass,
    {
        'cluster': cluster, 'verb': verb, 'uri': CASE WHEN is_nameless THEN nameless_uri ELSE uri END, 'user_name': user_name,
        'user_groups': user_groups, 'impersonated_user': impersonated_user, 'user_extra': user_extra,
        'api_group': api_group, 'version': version, 'resource': resource, 'subresource': subresource, 'namespace': namespace,
        'name': name, 'decision': decision, 'reason': reason, 'code': code, 'message': message, 'wording': wording, 'redacted': redacted, 'own': own,
        'is_nameless': is_nameless,
        'epoch': CASE WHEN is_timeless THEN -1 ELSE coalesce(epoch, 0) END
    } AS question
FROM named
