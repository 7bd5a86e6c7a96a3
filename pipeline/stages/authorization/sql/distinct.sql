-- one row per distinct question of the table `asked`: its columns but the request's own, how often it was asked, and when
SELECT
    cluster, verb, uri, user_name, user_groups, impersonated_user, user_extra, impersonation_constraint, api_group, version,
    resource, subresource, namespace, name, decision, reason, code, message, wording, redacted, own,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_min(audit_id, (ts, audit_id)) AS example
FROM asked
GROUP BY ALL
ORDER BY first_ts, example, uri
