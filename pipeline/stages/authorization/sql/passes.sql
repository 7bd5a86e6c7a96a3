-- one row per request of the table `asked`, as a pass of the stage, with its question
-- epoch: counts the changes of roles and bindings before the request, from the table `rbac_moments`; -1 where these do not matter
--
-- An allowance by a binding that the files do not change stands at any time: `settled_reasons` lists these. Files that replace all
-- do not depend on the roles of the time. Neither holds for requests that need further permissions.
SELECT
    asked.cluster, asked.audit_id, asked.ts, asked.stage_ts, 0 AS pass,
    {
        'cluster': asked.cluster, 'verb': verb, 'uri': uri, 'user_name': user_name, 'user_groups': user_groups,
        'impersonated_user': impersonated_user, 'user_extra': user_extra, 'is_translated': is_translated, 'api_group': api_group,
        'resource': resource, 'subresource': subresource, 'decision': decision, 'reason': asked.reason, 'code': code,
        'message': message, 'own': own,
        'epoch': CASE
            WHEN impersonated_user = '' AND own = '' AND message = '' AND code <> 201
                AND list_position(['attach', 'exec', 'portforward'], subresource) IS NULL
                AND ($is_only OR settled_reasons.reason IS NOT NULL OR list_contains(user_groups, 'system:masters'))
            THEN -1
            ELSE coalesce(rbac_moments.epoch, 0)
        END
    } AS question
FROM asked
    LEFT JOIN settled_reasons ON asked.cluster = settled_reasons.cluster AND asked.reason = settled_reasons.reason
        AND asked.decision = 'allow'
    ASOF LEFT JOIN rbac_moments ON asked.cluster = rbac_moments.rbac_cluster AND asked.ts >= rbac_moments.since
