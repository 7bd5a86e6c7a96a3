-- one row per distinct question of the table `asked`: its columns but the request's own, how often it was asked, and when
-- number: names the question in the table `asked_numbers`
SELECT
    row_number() OVER (ORDER BY min(ts), min(audit_id), any_value(uri)) - 1 AS number,
    cluster, verb, uri, user_name, user_groups, impersonated_user, user_extra, impersonation_constraint, is_translated,
    any_value(api_group) AS api_group, any_value(resource) AS resource, any_value(subresource) AS subresource,
    decision, reason, code, message, own, epoch,
    count(*) AS requests,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    arg_min(audit_id, (ts, audit_id)) AS example
FROM asked
GROUP BY
    cluster, verb, uri, user_name, user_groups, impersonated_user, user_extra, impersonation_constraint, is_translated, decision, reason,
    code, message, own, epoch
ORDER BY number
